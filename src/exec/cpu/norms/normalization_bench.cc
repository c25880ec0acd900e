// Layer norm and its fused form at the size of an encoder's layer: R 16384, H 1024. Bytes are those of the
// activations.
#include "exec/cpu/norms/normalization.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace shoehorn::cpu {
namespace {

constexpr int64_t kRows = 16384;
constexpr int64_t kHidden = 1024;

struct Buffers {
  explicit Buffers(float p) {
    for (auto* b : {&x, &residual, &z, &y}) b->assign(static_cast<size_t>(kRows * kHidden), 0.5F);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1013) * 0.001F;
    dropout = {
        .p = p, .seed = 1, .stream_id = 1, .step = &step, .sample = index.data(), .position = index.data()};
  }
  std::vector<float> x, residual, z, y;
  std::vector<float> parameters = std::vector<float>(kHidden, 1.0F);
  std::vector<float> mean = std::vector<float>(kRows, 0.5F), rstd = std::vector<float>(kRows, 1.0F);
  std::vector<float> dbias = parameters, dgamma = parameters, dbeta = parameters;
  std::vector<int32_t> index = std::vector<int32_t>(kRows, 7);
  uint32_t step = 1;
  Dropout dropout;
};

void bench_layer_norm_forward(benchmark::State& state) {
  Buffers b(0.0F);
  for (auto _ : state) {
    layer_norm_forward({.dtype = DType::kF32,
                        .rows = kRows,
                        .hidden = kHidden,
                        .epsilon = 1e-5F,
                        .x = b.x.data(),
                        .gamma = b.parameters.data(),
                        .beta = b.parameters.data(),
                        .y = b.y.data(),
                        .mean = b.mean.data(),
                        .rstd = b.rstd.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kHidden * 8);
}
BENCHMARK(bench_layer_norm_forward)->UseRealTime();

void bench_layer_norm_backward(benchmark::State& state) {
  Buffers b(0.0F);
  std::vector<float> scratch(static_cast<size_t>(layer_norm_backward_workspace_bytes(kRows, kHidden) / 4));
  for (auto _ : state) {
    layer_norm_backward({.dtype = DType::kF32,
                         .rows = kRows,
                         .hidden = kHidden,
                         .dy = b.residual.data(),
                         .x = b.x.data(),
                         .mean = b.mean.data(),
                         .rstd = b.rstd.data(),
                         .gamma = b.parameters.data(),
                         .dx = b.y.data(),
                         .dgamma = b.dgamma.data(),
                         .dbeta = b.dbeta.data(),
                         .accumulate = {},
                         .workspace = scratch.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kHidden * 12);
}
BENCHMARK(bench_layer_norm_backward)->UseRealTime();

// Argument: dropout in percent.
void bench_fused_forward(benchmark::State& state) {
  Buffers b(static_cast<float>(state.range(0)) / 100.0F);
  for (auto _ : state) {
    bias_dropout_residual_layer_norm_forward({.dtype = DType::kF32,
                                              .rows = kRows,
                                              .hidden = kHidden,
                                              .epsilon = 1e-5F,
                                              .dropout = b.dropout,
                                              .x = b.x.data(),
                                              .bias = b.parameters.data(),
                                              .residual = b.residual.data(),
                                              .gamma = b.parameters.data(),
                                              .beta = b.parameters.data(),
                                              .z = b.z.data(),
                                              .y = b.y.data(),
                                              .mean = b.mean.data(),
                                              .rstd = b.rstd.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kHidden * 16);
}
BENCHMARK(bench_fused_forward)->Arg(0)->Arg(10)->UseRealTime();

void bench_fused_backward(benchmark::State& state) {
  Buffers b(static_cast<float>(state.range(0)) / 100.0F);
  std::vector<float> scratch(
      static_cast<size_t>(bias_dropout_residual_layer_norm_backward_workspace_bytes(kRows, kHidden) / 4));
  for (auto _ : state) {
    bias_dropout_residual_layer_norm_backward({.dtype = DType::kF32,
                                               .rows = kRows,
                                               .hidden = kHidden,
                                               .dropout = b.dropout,
                                               .dy = b.residual.data(),
                                               .dz_addend = nullptr,
                                               .z = b.x.data(),
                                               .mean = b.mean.data(),
                                               .rstd = b.rstd.data(),
                                               .gamma = b.parameters.data(),
                                               .dresidual = b.z.data(),
                                               .dx = b.y.data(),
                                               .dbias = b.dbias.data(),
                                               .dgamma = b.dgamma.data(),
                                               .dbeta = b.dbeta.data(),
                                               .accumulate = {},
                                               .workspace = scratch.data()});
  }
  state.SetBytesProcessed(state.iterations() * kRows * kHidden * 16);
}
BENCHMARK(bench_fused_backward)->Arg(0)->Arg(10)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
