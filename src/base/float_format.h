// Properties of binary floating-point formats, as torch.finfo reports them, and rounding to any of them.
#pragma once

#include <span>
#include <string_view>

namespace shoehorn {

// A format of a sign, a biased exponent and a mantissa, with subnormals.
struct FloatFormat {
  std::string_view name;
  int bits;
  int exponent_bits;
  int mantissa_bits;
  // True for formats such as float8_e4m3fn: there is no infinity, and at the largest exponent only the
  // mantissa of all ones is NaN; the others are ordinary numbers.
  bool is_finite_only = false;

  double max() const;
  double min_normal() const;
  double min_subnormal() const;
  double epsilon() const;     // distance from 1 to the next larger number
  double resolution() const;  // 10^-d, where d is the number of decimal digits that survive
};

// float64, float32, tfloat32 (19 bits, stored in 32), bfloat16, float16, float8_e5m2, float8_e4m3fn.
std::span<const FloatFormat> float_formats();

// Rounds to nearest, ties to even. A value beyond the largest number becomes infinity, or the largest number
// in a format without infinity, as in PyTorch's conversions.
double round_to_format(double value, const FloatFormat& format);

}  // namespace shoehorn
