#include "exec/host_kernels.h"

#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/simd/random_normal.h"
#include "exec/cpu/simd/random_uniform.h"

namespace shoehorn::host {

void convert(DType from_dtype, const void* from, int64_t count, DType to_dtype, void* to) {
  cpu::cast({.count = count, .from_dtype = from_dtype, .from = from, .to_dtype = to_dtype, .to = to});
}

void split_master(std::span<const float> values, bfloat16* high, int16_t* rest) {
  cpu::split_master(values.data(), std::ssize(values), high, rest);
}

void join_master(const bfloat16* high, const int16_t* rest, std::span<float> values) {
  cpu::join_master(high, rest, std::ssize(values), values.data());
}

void fill_normal(const RandomRange& range, float standard_deviation, std::span<float> values) {
  cpu::fill_normal({.seed = range.seed,
                    .stream = range.stream,
                    .first = range.first,
                    .mean = 0,
                    .standard_deviation = standard_deviation,
                    .values = values});
}

void fill_uniform(const RandomRange& range, float bound, std::span<float> values) {
  cpu::fill_uniform(
      {.seed = range.seed, .stream = range.stream, .first = range.first, .bound = bound, .values = values});
}

}  // namespace shoehorn::host
