// What kernels that lay out their workspace themselves share: parts begin at multiples of a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/rounding.h"

namespace shoehorn::cpu {

inline constexpr int64_t kPartAlignment = 64;

// What a part of so many bytes takes.
constexpr int64_t part_bytes(int64_t bytes) {
  return round_up(bytes, kPartAlignment);
}

// Element `index` behind `base`.
inline const std::byte* element_at(const void* base, int64_t index, DType dtype) {
  return static_cast<const std::byte*>(base) + index * dtype_bytes(dtype);
}

}  // namespace shoehorn::cpu
