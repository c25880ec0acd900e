// What the host computes itself, whatever backend trains: numbers between files and storages, and the first
// values of weights. It works on the host's own memory, with the kernels of the CPU (exec/cpu/host_kernels.cc).
//
// Nothing is allocated; OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>
#include <span>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace shoehorn::host {

// float32, bfloat16 and float16 (checked: InternalError), one of each other; rounded to nearest, ties to even.
void convert(DType from_dtype, const void* from, int64_t count, DType to_dtype, void* to);

// A float32 as a bfloat16 and a 16-bit rest that together lose no bit, and back: exec/cpu/elementwise/elementwise.h.
void split_master(std::span<const float> values, bfloat16* high, int16_t* rest);
void join_master(const bfloat16* high, const int16_t* rest, std::span<float> values);

// Numbers that follow from the seed, the stream and the place in the stream alone: any part can be drawn by
// itself (exec/cpu/simd/random_normal.h, random_uniform.h).
struct RandomRange {
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;  // place of values[0] in the stream: a multiple of 64 for normal ones
};
void fill_normal(const RandomRange& range, float standard_deviation, std::span<float> values);
void fill_uniform(const RandomRange& range, float bound, std::span<float> values);  // in [-bound, bound)

}  // namespace shoehorn::host
