// Shares as scikit-learn has them with zero_division 0.
#pragma once

#include <cstdint>

namespace shoehorn {

// 0 where there is no whole.
inline double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace shoehorn
