// Whole numbers brought to whole parts; of numbers that are not negative.
#pragma once

#include <cstdint>

namespace shoehorn {

// How many parts of `b` hold `a`.
constexpr int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The least multiple of `multiple` that is not below `value`.
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return ceil_divide(value, multiple) * multiple;
}

}  // namespace shoehorn
