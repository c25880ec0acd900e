// Binary floating-point formats as numbers: what torch.finfo says of them, and rounding to any of them.
#pragma once

#include <span>
#include <string_view>

namespace shoehorn {

// Sign, exponent with a bias, mantissa; subnormals.
struct FloatFormat {
  std::string_view name;
  int bits;
  int exponent_bits;
  int mantissa_bits;
  // The largest exponent has numbers too; only its last mantissa is no number, and none is infinite.
  bool is_finite_only = false;

  double max() const;
  double min_normal() const;
  double min_subnormal() const;
  double epsilon() const;     // from 1 to the next number
  double resolution() const;  // 10^-d, of the d decimal digits that survive
};

// float64, float32, tfloat32 (of 19 bits, kept in 32), bfloat16, float16, float8_e5m2, float8_e4m3fn.
std::span<const FloatFormat> float_formats();

// To nearest, ties to even. Beyond the largest number: infinity, or that number in a format without one, as
// PyTorch converts.
double round_to_format(double value, const FloatFormat& format);

}  // namespace shoehorn
