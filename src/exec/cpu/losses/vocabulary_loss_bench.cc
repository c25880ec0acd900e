// Time of a vocabulary's loss with its gradients, beside that of its products alone: all tokens by a chunk of the
// vocabulary, each chunk of W and dW once, and nothing in between. Run them in turns:
//   exec_cpu_bench --benchmark_filter=vocabulary --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <vector>

#include "exec/cpu/losses/vocabulary_loss.h"

namespace shoehorn::cpu {
namespace {

struct Operands {
  Operands(const benchmark::State& state, DType type)
      : dtype(type),
        tokens(state.range(0)),
        hidden(state.range(1)),
        vocabulary(state.range(2)),
        x(static_cast<size_t>(tokens * hidden), 0.01F),
        weight(static_cast<size_t>(vocabulary * hidden), 0.01F) {
    for (int64_t t = 0; t < tokens; ++t) labels.push_back(static_cast<int32_t>(t * 7919 % vocabulary));
  }
  double product_flops() const {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(hidden) * static_cast<double>(vocabulary);
  }

  DType dtype;
  int64_t tokens, hidden, vocabulary;
  std::vector<float> x, weight;  // as many bytes as any type takes
  std::vector<int32_t> labels;
};

std::vector<float> buffer_of(int64_t bytes) {
  return std::vector<float>(static_cast<size_t>(bytes / 4 + 32));
}
void* aligned(std::vector<float>& buffer) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(buffer.data()) + 63) / 64 * 64);
}

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void vocabulary_loss(benchmark::State& state, DType dtype, bool trains_weight) {
  Operands operands(state, dtype);
  const VocabularyLoss loss({.dtype = dtype,
                             .tokens = operands.tokens,
                             .hidden = operands.hidden,
                             .vocabulary = operands.vocabulary,
                             .gives_dx = true,
                             .gives_dweight = trains_weight});
  loss.compile();
  std::vector<float> dx(operands.x.size());
  std::vector<float> dweight(trains_weight ? operands.weight.size() : 0);
  std::vector<float> maximum(static_cast<size_t>(operands.tokens));
  std::vector<float> sum(maximum.size());
  std::vector<float> workspace = buffer_of(loss.workspace_bytes());
  const float count = static_cast<float>(operands.tokens);
  float result = 0;
  float right = 0;
  for (auto _ : state) {
    loss.run({.tokens = operands.tokens,
              .x = operands.x.data(),
              .weight = operands.weight.data(),
              .labels = operands.labels.data(),
              .target_count = &count,
              .row_maximum = maximum.data(),
              .row_sum = sum.data(),
              .loss = &result,
              .right = &right,
              .dx = dx.data(),
              .dweight = dweight.data(),
              .workspace = aligned(workspace)});
  }
  count_flops(state, (trains_weight ? 3 : 2) * operands.product_flops());
  state.counters["MiB"] = static_cast<double>(loss.workspace_bytes()) / (1 << 20);
  state.counters["rows"] = static_cast<double>(loss.block_rows());
  state.counters["keeps"] = loss.keeps_exponentials() ? 1 : 0;
}

void vocabulary_products(benchmark::State& state, DType dtype, bool trains_weight) {
  constexpr int64_t kColumns = 2048;
  Operands operands(state, dtype);
  const MatmulShape shape{.operands = dtype, .result = DType::kF32};
  MatmulShape logits = shape;
  logits.m = operands.tokens;
  logits.n = kColumns;
  logits.k = operands.hidden;
  logits.transpose_b = true;
  MatmulShape dx = shape;
  dx.m = operands.tokens;
  dx.n = operands.hidden;
  dx.k = kColumns;
  dx.accumulate = true;
  MatmulShape dweight = shape;
  dweight.m = kColumns;
  dweight.n = operands.hidden;
  dweight.k = operands.tokens;
  dweight.transpose_a = true;
  dweight.dynamic = DynamicDimension::kK;
  dweight.count_multiple = operands.tokens;
  const auto make_logits = prepare_matmul(logits);
  const auto make_dx = prepare_matmul(dx);
  const auto make_dweight = prepare_matmul(dweight);
  std::vector<float> workspace = buffer_of(std::max(
      {make_logits->workspace_bytes(), make_dx->workspace_bytes(), make_dweight->workspace_bytes()}));
  std::vector<float> chunk(static_cast<size_t>(operands.tokens * kColumns));
  std::vector<float> dx_sums(operands.x.size());
  std::vector<float> dweight_sums(trains_weight ? operands.weight.size() : 0);
  const int64_t chunks = operands.vocabulary / kColumns;
  for (auto _ : state) {
    for (int64_t i = 0; i < chunks; ++i) {
      const auto* weight = reinterpret_cast<const std::byte*>(operands.weight.data()) +
                           i * kColumns * operands.hidden * dtype_bytes(dtype);
      make_logits->run(operands.tokens, operands.x.data(), weight, nullptr, chunk.data(), aligned(workspace));
      make_dx->run(operands.tokens, chunk.data(), weight, nullptr, dx_sums.data(), aligned(workspace));
      if (trains_weight)
        make_dweight->run(operands.tokens, chunk.data(), operands.x.data(), nullptr,
                          dweight_sums.data() + i * kColumns * operands.hidden, aligned(workspace));
    }
  }
  const double share = static_cast<double>(chunks * kColumns) / static_cast<double>(operands.vocabulary);
  count_flops(state, (trains_weight ? 3 : 2) * operands.product_flops() * share);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({256, 64, 8'192})->Args({512, 576, 49'152})->Args({2048, 896, 151'936});
  benchmark->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond)->Iterations(1);
}

BENCHMARK_CAPTURE(vocabulary_loss, fp32_trained, DType::kF32, true)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_products, fp32_trained, DType::kF32, true)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_loss, fp32_frozen, DType::kF32, false)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_products, fp32_frozen, DType::kF32, false)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_loss, bf16_trained, DType::kBF16, true)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_products, bf16_trained, DType::kBF16, true)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_loss, bf16_frozen, DType::kBF16, false)->Apply(sizes);
BENCHMARK_CAPTURE(vocabulary_products, bf16_frozen, DType::kBF16, false)->Apply(sizes);

}  // namespace
}  // namespace shoehorn::cpu
