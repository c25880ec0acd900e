// Element conversions on the way from a file to a planned buffer. Sources are raw little-endian bytes, at any
// alignment.
#pragma once

#include <cstddef>
#include <span>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace shoehorn {

// destination[i] = element i of `source`, whose elements are `from` (a float type); source.size() is
// destination.size() * dtype_bytes(from). Exact from F16, BF16 and F32; rounded to nearest even from F64; a
// NaN stays a NaN. Subnormal halves are exact whatever the processor's flush-to-zero mode.
void convert_elements(DType from, std::span<const std::byte> source, std::span<float> destination);

// The same, then rounded from float32 to the nearest bfloat16, ties to even; so F64 rounds twice, as
// PyTorch's cast does. Exact from BF16.
void convert_elements(DType from, std::span<const std::byte> source, std::span<bfloat16> destination);

}  // namespace shoehorn
