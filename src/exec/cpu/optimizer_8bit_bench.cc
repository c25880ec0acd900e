// AdamW with 8-bit states over a list of tensors, to be read beside bench_adamw: 16 bytes an element in place
// of 28 (weight and both codes read and written, gradient read; a scale for 256).
#include "exec/cpu/optimizer_8bit.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "exec/cpu/dynamic_map.h"

namespace shoehorn::cpu {
namespace {

constexpr int64_t kTensors = 16;
constexpr int64_t kCount = 1 << 20;

// Moments as training leaves them: of all magnitudes.
void bench_adamw_8bit(benchmark::State& state) {
  constexpr size_t kAll = static_cast<size_t>(kTensors * kCount);
  const bool split = state.range(0) == 1;
  std::vector<float> weight(kAll, 0.5F), gradient(kAll);
  uint32_t random = 1;
  for (float& g : gradient) {
    random = random * 1664525 + 1013904223;
    g = static_cast<float>(static_cast<int32_t>(random)) * 0x1p-31F;
    g = g * g * g;
  }
  std::vector<bfloat16> high(split ? kAll : 0, bfloat16{0x3f00});
  std::vector<int16_t> rest(split ? kAll : 0, 3);
  std::vector<uint8_t> m(kAll), v(kAll);
  std::vector<float> m_scale(kAll / kStateBlock), v_scale(kAll / kStateBlock);
  std::vector<EightBitTensor> list;
  for (int64_t t = 0; t < kTensors; ++t) {
    const int64_t at = t * kCount;
    WeightView view{.value = weight.data() + at};
    if (split) view = {.value = nullptr, .high = high.data() + at, .rest = rest.data() + at};
    list.push_back({.count = kCount,
                    .weight = view,
                    .gradient_dtype = DType::kF32,
                    .gradient = gradient.data() + at,
                    .codes = {m.data() + at, v.data() + at},
                    .scales = {m_scale.data() + at / kStateBlock, v_scale.data() + at / kStateBlock},
                    .weight_decay = 0.01F});
  }
  const float learning_rate = 1e-3F, coefficient = 0.9F;
  const uint32_t applied = 10;
  for (auto _ : state) {
    adamw_8bit_update(list, {}, {.learning_rate = &learning_rate, .gradient_scale = &coefficient}, &applied);
  }
  state.SetBytesProcessed(state.iterations() * kTensors * kCount * 16);
}
BENCHMARK(bench_adamw_8bit)->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
