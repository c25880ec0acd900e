// Bias and activation, and gates, at the size of an encoder's layer: R 8192, F 4096. Argument: the kind. Bytes are those
// of the activations.
#include "exec/cpu/elementwise/activation.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace shoehorn::cpu {
namespace {

constexpr int64_t kRows = 8192;
constexpr int64_t kFeatures = 4096;

struct Buffers {
  Buffers() : x(kRows * kFeatures), dy(kRows * kFeatures, 1.0F), y(kRows * kFeatures) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009) * 0.008F - 4.0F;
  }
  std::vector<float> x, dy, y;
  std::vector<float> bias = std::vector<float>(kFeatures, 0.1F), dbias = bias;
};

void bench_activation_forward(benchmark::State& state) {
  Buffers b;
  for (auto _ : state) {
    bias_activation_forward({.dtype = DType::kF32,
                             .kind = static_cast<Activation>(state.range(0)),
                             .rows = kRows,
                             .features = kFeatures,
                             .x = b.x.data(),
                             .bias = b.bias.data(),
                             .y = b.y.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kFeatures * 8);
}
BENCHMARK(bench_activation_forward)->DenseRange(0, 4)->UseRealTime();

void bench_activation_backward(benchmark::State& state) {
  Buffers b;
  std::vector<float> scratch(
      static_cast<size_t>(bias_activation_backward_workspace_bytes(kRows, kFeatures) / 4));
  for (auto _ : state) {
    bias_activation_backward({.dtype = DType::kF32,
                              .kind = static_cast<Activation>(state.range(0)),
                              .rows = kRows,
                              .features = kFeatures,
                              .dy = b.dy.data(),
                              .x = b.x.data(),
                              .bias = b.bias.data(),
                              .dx = b.y.data(),
                              .dbias = b.dbias.data(),
                              .accumulate = false,
                              .workspace = scratch.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kFeatures * 12);
}
BENCHMARK(bench_activation_backward)->DenseRange(0, 4)->UseRealTime();

void bench_gated_forward(benchmark::State& state) {
  Buffers b;
  for (auto _ : state) {
    gated_activation_forward({.dtype = DType::kF32,
                              .kind = static_cast<Activation>(state.range(0)),
                              .count = kRows * kFeatures,
                              .gate = b.x.data(),
                              .up = b.dy.data(),
                              .y = b.y.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kFeatures * 12);
}
BENCHMARK(bench_gated_forward)->DenseRange(0, 4)->UseRealTime();

// In place, as in a step: the gradients take the bytes of the gate and of dy.
void bench_gated_backward(benchmark::State& state) {
  Buffers b;
  for (auto _ : state) {
    gated_activation_backward({.dtype = DType::kF32,
                               .kind = static_cast<Activation>(state.range(0)),
                               .count = kRows * kFeatures,
                               .dy = b.dy.data(),
                               .gate = b.x.data(),
                               .up = b.y.data(),
                               .dgate = b.dy.data(),
                               .dup = b.x.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kFeatures * 20);
}
BENCHMARK(bench_gated_backward)->DenseRange(0, 4)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
