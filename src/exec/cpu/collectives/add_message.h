// What came of another rank is added to what is here.
#pragma once

#include <cstddef>

namespace shoehorn::cpu {

template <typename T>
void add_message(const std::byte* message, std::byte* to, size_t bytes) {
  const T* terms = reinterpret_cast<const T*>(message);
  T* sums = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) sums[i] += terms[i];
}

}  // namespace shoehorn::cpu
