// Bandwidth of the kernels that should be bound by it, against a copy and a triad in the same program.
#include "exec/cpu/elementwise/elementwise.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "exec/cpu/parallel.h"

namespace shoehorn::cpu {
namespace {

constexpr int64_t kCount = 32 << 20;

void count_bytes(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void bench_copy(benchmark::State& state) {
  std::vector<float> a(kCount, 1.0F), b(kCount);
  for (auto _ : state) copy(a.data(), kCount * 4, b.data());
  count_bytes(state, kCount * 8);
}
BENCHMARK(bench_copy)->UseRealTime();

// Reads and writes in place, as an optimizer does: no line is fetched only to be overwritten.
void bench_update_triad(benchmark::State& state) {
  std::vector<float> a(kCount, 1.0F), b(kCount, 2.0F);
  float* x = a.data();
  const float* y = b.data();
  for (auto _ : state) {
    parallel_ranges(kCount, kElementsPerChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) x[i] += 0.5F * y[i];
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state, kCount * 12);
}
BENCHMARK(bench_update_triad)->UseRealTime();

void bench_add(benchmark::State& state) {
  std::vector<float> a(kCount, 1.0F), b(kCount, 2.0F), sum(kCount);
  for (auto _ : state)
    add({.dtype = DType::kF32, .count = kCount, .a = a.data(), .b = b.data(), .sum = sum.data()});
  count_bytes(state, kCount * 12);
}
BENCHMARK(bench_add)->UseRealTime();

void bench_cast_to_bfloat16(benchmark::State& state) {
  std::vector<float> a(kCount, 1.0F);
  std::vector<bfloat16> b(kCount);
  for (auto _ : state) {
    cast({.count = kCount,
          .from_dtype = DType::kF32,
          .from = a.data(),
          .to_dtype = DType::kBF16,
          .to = b.data()});
  }
  count_bytes(state, kCount * 6);
}
BENCHMARK(bench_cast_to_bfloat16)->UseRealTime();

void bench_dropout(benchmark::State& state) {
  constexpr int64_t kColumns = 1024;
  constexpr int64_t kRows = kCount / kColumns;
  std::vector<float> x(kCount, 1.0F);
  std::vector<int32_t> index(kRows, 5);
  const uint32_t step = 1;
  const Dropout dropout{
      .p = 0.1F, .seed = 1, .stream_id = 1, .step = &step, .sample = index.data(), .position = index.data()};
  for (auto _ : state) {
    dropout_apply({.dtype = DType::kF32,
                   .rows = kRows,
                   .columns = kColumns,
                   .dropout = dropout,
                   .x = x.data(),
                   .y = x.data()});
  }
  count_bytes(state, kCount * 8);
}
BENCHMARK(bench_dropout)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
