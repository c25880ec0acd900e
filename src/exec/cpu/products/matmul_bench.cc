// Rates of the products of an encoder's layer, and of a decoder's with fewer keys and values than queries: forward, gradient of the
// input, gradient of the weight; fp32 and bf16 as this machine multiplies it. Arguments: outputs and inputs of the weight; tokens. Counters are operations a second.
#include <benchmark/benchmark.h>

#include <vector>

#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {
namespace {

int64_t tokens(const benchmark::State& state) {
  return state.range(2);
}

void run_product(benchmark::State& state, MatmulShape shape, DType dtype, bool narrow_result) {
  shape.operands = dtype;
  shape.result = narrow_result ? dtype : DType::kF32;
  const auto buffer = [](int64_t count) { return std::vector<float>(static_cast<size_t>(count)); };
  const std::vector<float> a = buffer(shape.m * shape.k);
  const std::vector<float> b = buffer(shape.k * shape.n);
  std::vector<float> c = buffer(shape.m * shape.n);
  const auto matmul = prepare_matmul(shape);
  std::vector<float> workspace = buffer(matmul->workspace_bytes() / 4 + 32);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  for (auto _ : state) matmul->run(tokens(state), a.data(), b.data(), nullptr, c.data(), aligned);
  state.counters["FLOP/s"] = benchmark::Counter(
      2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k),
      benchmark::Counter::kIsIterationInvariantRate);
}

// The weight is [out, in], as a checkpoint stores it.
void forward(benchmark::State& state, DType dtype) {
  run_product(state,
              {.m = tokens(state),
               .n = state.range(0),
               .k = state.range(1),
               .transpose_b = true,
               .dynamic = DynamicDimension::kM,
               .count_multiple = 16},
              dtype, true);
}

void input_gradient(benchmark::State& state, DType dtype) {
  run_product(state,
              {.m = tokens(state),
               .n = state.range(1),
               .k = state.range(0),
               .dynamic = DynamicDimension::kM,
               .count_multiple = 16},
              dtype, true);
}

void weight_gradient(benchmark::State& state, DType dtype) {
  run_product(state,
              {.m = state.range(0),
               .n = state.range(1),
               .k = tokens(state),
               .transpose_a = true,
               .dynamic = DynamicDimension::kK,
               .count_multiple = 16},
              dtype, false);
}

void weights(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t tokens : {128, 256, 512, 2048}) {
    benchmark->Args({2304, 768, tokens})->Args({768, 768, tokens})->Args({3072, 768, tokens});
    benchmark->Args({768, 3072, tokens})->Args({4096, 1024, tokens})->Args({1024, 4096, tokens});
    benchmark->Args({960, 576, tokens})->Args({576, 576, tokens})->Args({3072, 576, tokens});
    benchmark->Args({576, 1536, tokens});
  }
  benchmark->UseRealTime();
}

BENCHMARK_CAPTURE(forward, fp32, DType::kF32)->Apply(weights);
BENCHMARK_CAPTURE(forward, bf16, DType::kBF16)->Apply(weights);
BENCHMARK_CAPTURE(input_gradient, fp32, DType::kF32)->Apply(weights);
BENCHMARK_CAPTURE(input_gradient, bf16, DType::kBF16)->Apply(weights);
BENCHMARK_CAPTURE(weight_gradient, fp32, DType::kF32)->Apply(weights);
BENCHMARK_CAPTURE(weight_gradient, bf16, DType::kBF16)->Apply(weights);

}  // namespace
}  // namespace shoehorn::cpu
