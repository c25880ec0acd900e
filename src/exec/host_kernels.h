// Kernels that run on the host whatever backend trains: conversions between files and storages, and initial
// weights. They work on host memory and use the CPU's kernels (exec/cpu/host_kernels.cc).
//
// Nothing is allocated. Work is split over OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>
#include <span>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace shoehorn::host {

// Converts between float32, bfloat16 and float16 (checked: InternalError); rounds to nearest, ties to even.
void convert(DType from_dtype, const void* from, int64_t count, DType to_dtype, void* to);

// Splits a float32 into a bfloat16 and a 16-bit rest without losing a bit, and joins them again; see
// exec/cpu/elementwise/elementwise.h.
void split_master(std::span<const float> values, bfloat16* high, int16_t* rest);
void join_master(const bfloat16* high, const int16_t* rest, std::span<float> values);

// Random numbers that depend only on the seed, the stream and the position in the stream, so that any part
// can be drawn separately (exec/cpu/simd/random_normal.h, random_uniform.h).
struct RandomRange {
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;  // position of values[0] in the stream: a multiple of 64 for fill_normal
};
void fill_normal(const RandomRange& range, float standard_deviation, std::span<float> values);
void fill_uniform(const RandomRange& range, float bound, std::span<float> values);  // in [-bound, bound)

}  // namespace shoehorn::host
