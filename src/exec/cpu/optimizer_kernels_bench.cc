// AdamW over a list of tensors: 28 bytes an element (4 read, 3 written) against the in-place triad's
// bandwidth.
#include "exec/cpu/optimizer_kernels.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace shoehorn::cpu {
namespace {

constexpr int64_t kTensors = 16;
constexpr int64_t kCount = 1 << 20;

// Argument: 1 for split masters.
void bench_adamw(benchmark::State& state) {
  constexpr size_t kAll = static_cast<size_t>(kTensors * kCount);
  const bool split = state.range(0) == 1;
  std::vector<float> weight(kAll, 0.5F), gradient(kAll, 0.1F), m(kAll, 0.1F), v(kAll, 0.01F);
  std::vector<bfloat16> high(split ? kAll : 0, bfloat16{0x3f00});
  std::vector<int16_t> rest(split ? kAll : 0, 3);
  std::vector<StatefulTensor> list;
  for (int64_t t = 0; t < kTensors; ++t) {
    const int64_t at = t * kCount;
    WeightView view{.value = weight.data() + at};
    if (split) view = {.value = nullptr, .high = high.data() + at, .rest = rest.data() + at};
    list.push_back({.count = kCount,
                    .weight = view,
                    .gradient_dtype = DType::kF32,
                    .gradient = gradient.data() + at,
                    .states = {m.data() + at, v.data() + at},
                    .weight_decay = 0.01F});
  }
  const float learning_rate = 1e-3F, coefficient = 0.9F;
  const uint32_t applied = 10;
  for (auto _ : state) {
    adamw_update(list, {}, {.learning_rate = &learning_rate, .gradient_scale = &coefficient}, &applied);
  }
  state.SetBytesProcessed(state.iterations() * kTensors * kCount * 28);
}
BENCHMARK(bench_adamw)->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
