#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shoehorn {

// Of at least one number; of an even count the mean of the two in the middle.
template <typename T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace shoehorn
