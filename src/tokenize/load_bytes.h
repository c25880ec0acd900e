// Bytes of a text as a number, for hashing and for asking eight of them at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shoehorn {

// The first `count` of them, at most eight, in memory's order; the number's other bytes are 0.
inline uint64_t load_bytes(const char* bytes, size_t count) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

}  // namespace shoehorn
