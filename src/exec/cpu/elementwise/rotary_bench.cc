// Rotary embedding at the size of a small decoder's layer: R 2048, 9 and 3 heads of 64 beside 192 columns of values.
// Argument: the dtype. Bytes are those of the turned columns and of the table.
#include "exec/cpu/elementwise/rotary.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace shoehorn::cpu {
namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kPairs = 32;
constexpr int64_t kHeads = 12;
constexpr int64_t kColumns = (kHeads + 3) * 2 * kPairs;

void bench_rotary(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const std::vector<float> table(kRows * 2 * kPairs, 0.7F);
  std::vector<float> x(kRows * kColumns);
  for (auto _ : state) {
    rotary({.dtype = dtype,
            .rows = kRows,
            .columns = kColumns,
            .first_column = 0,
            .heads = kHeads,
            .head_size = 2 * kPairs,
            .pairs = kPairs,
            .inverse = false,
            .table = table.data(),
            .x = x.data(),
            .y = x.data()});
  }
  const int64_t turned = 2 * kHeads * 2 * kPairs * dtype_bytes(dtype);
  state.SetBytesProcessed(state.iterations() * kRows * (turned + 2 * kPairs * 4));
}
BENCHMARK(bench_rotary)
    ->Arg(static_cast<int64_t>(DType::kF32))
    ->Arg(static_cast<int64_t>(DType::kBF16))
    ->UseRealTime();

void bench_rotary_table(benchmark::State& state) {
  const std::vector<float> frequencies(kPairs, 0.3F);
  const std::vector<int32_t> positions(kRows, 511);
  std::vector<float> table(kRows * 2 * kPairs);
  for (auto _ : state) {
    rotary_table({.rows = kRows,
                  .pairs = kPairs,
                  .attention_factor = 1.0F,
                  .frequencies = frequencies.data(),
                  .positions = positions.data(),
                  .table = table.data()});
  }
  state.SetItemsProcessed(state.iterations() * kRows * kPairs);
}
BENCHMARK(bench_rotary_table)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
