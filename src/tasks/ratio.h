// Ratios as in scikit-learn with zero_division 0.
#pragma once

#include <cstdint>

namespace shoehorn {

// part / whole; 0 if whole is 0.
inline double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace shoehorn
