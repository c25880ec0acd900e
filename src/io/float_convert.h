// Converts elements on their way from a file into a tensor's buffer. Sources are raw little-endian bytes, at
// any alignment.
#pragma once

#include <cstddef>
#include <span>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace shoehorn {

// destination[i] = element i of `source`, whose elements have the float type `from`; source.size() is
// destination.size() * dtype_bytes(from). The conversion is exact from F16, BF16 and F32, also for subnormals
// in flush-to-zero mode. From F64 it rounds to nearest, ties to even. NaN stays NaN.
void convert_elements(DType from, std::span<const std::byte> source, std::span<float> destination);

// The same, followed by rounding from float32 to bfloat16 (nearest, ties to even). So F64 rounds twice, as in
// PyTorch. Exact from BF16.
void convert_elements(DType from, std::span<const std::byte> source, std::span<bfloat16> destination);

}  // namespace shoehorn
