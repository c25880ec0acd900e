#include "base/float_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace shoehorn {

namespace {

int bias(const FloatFormat& format) {
  return (1 << (format.exponent_bits - 1)) - 1;
}

constexpr std::array<FloatFormat, 7> kFormats = {{{"float64", 64, 11, 52},
                                                  {"float32", 32, 8, 23},
                                                  {"tfloat32", 19, 8, 10},
                                                  {"bfloat16", 16, 8, 7},
                                                  {"float16", 16, 5, 10},
                                                  {"float8_e5m2", 8, 5, 2},
                                                  {"float8_e4m3fn", 8, 4, 3, true}}};

}  // namespace

double FloatFormat::max() const {
  if (is_finite_only) return std::ldexp(2 - 2 * epsilon(), bias(*this) + 1);
  return std::ldexp(2 - epsilon(), bias(*this));
}
double FloatFormat::min_normal() const {
  return std::ldexp(1, 1 - bias(*this));
}
double FloatFormat::min_subnormal() const {
  return std::ldexp(1, 1 - bias(*this) - mantissa_bits);
}
double FloatFormat::epsilon() const {
  return std::ldexp(1, -mantissa_bits);
}
double FloatFormat::resolution() const {
  return std::pow(10, -std::floor(mantissa_bits * std::log10(2)));
}

std::span<const FloatFormat> float_formats() {
  return kFormats;
}

double round_to_format(double value, const FloatFormat& format) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), 1 - bias(format));
  const int last_place = exponent - format.mantissa_bits;
  // Quotients of at most 53 bits and powers of two: exact but for the rounding.
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last_place)), last_place);
  if (std::abs(rounded) <= format.max()) return rounded;
  const double beyond = format.is_finite_only ? format.max() : std::numeric_limits<double>::infinity();
  return std::copysign(beyond, value);
}

}  // namespace shoehorn
