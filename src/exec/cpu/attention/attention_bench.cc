// Fused attention beside a single-precision product of oneDNN in the same process. FLOP/s count the matrix
// work only, of the pairs of query and key that the mask shows: 4 · pairs · H forward, 10 · pairs · H backward,
// for each sequence.
//
//   exec_cpu_bench --benchmark_filter='Attention|Sgemm' --benchmark_repetitions=9
//   --benchmark_enable_random_interleaving
#include <benchmark/benchmark.h>
#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "base/bfloat16.h"
#include "exec/cpu/attention/attention.h"

namespace shoehorn::cpu {
namespace {

using Buffer = std::unique_ptr<void, decltype(&std::free)>;

Buffer make_buffer(int64_t bytes) {
  return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), &std::free};
}

Buffer make_uniform(DType dtype, int64_t count) {
  Buffer buffer = make_buffer(count * dtype_bytes(dtype));
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32) {
      static_cast<float*>(buffer.get())[i] = uniform(generator);
    } else {
      static_cast<bfloat16*>(buffer.get())[i] = to_bfloat16(uniform(generator));
    }
  }
  return buffer;
}

// T, D, A, B, per cent of dropout, dtype (0: f32, 1: bf16), key/value heads, and keys that a query sees (0: all;
// T or more: causal; fewer: a window).
class AttentionBench : public benchmark::Fixture {
 public:
  using benchmark::Fixture::SetUp;
  using benchmark::Fixture::TearDown;
  void SetUp(const benchmark::State& state) override {
    const int64_t tokens = state.range(0);
    const int64_t sequences = state.range(3);
    batch_ = AttentionBatch{};
    batch_.dtype = state.range(5) == 0 ? DType::kF32 : DType::kBF16;
    batch_.query_rows = batch_.key_rows = tokens * sequences;
    batch_.heads = state.range(2);
    batch_.key_value_heads = state.range(6);
    batch_.head_size = state.range(1);
    batch_.max_query_length = batch_.max_key_length = tokens;
    batch_.sequences = sequences;
    batch_.scale = 1.0F / std::sqrt(static_cast<float>(state.range(1)));
    const int64_t seen = state.range(7);
    if (seen > 0)
      batch_.mask = seen >= tokens ? AttentionMask::causal() : AttentionMask::sliding_window(seen);
    start_.clear();
    for (int64_t s = 0; s < sequences; ++s) start_.push_back(static_cast<int32_t>(s * tokens));
    length_.assign(sequences, static_cast<int32_t>(tokens));
    batch_.query_start = batch_.key_start = start_.data();
    batch_.query_length = batch_.key_length = length_.data();
    batch_.sequence_sample = start_.data();
    batch_.dropout = {static_cast<float>(state.range(4)) / 100.0F, 42, 1, &step_};
    threads_ = omp_get_max_threads();
    const int64_t rows = batch_.query_rows;
    qkv_columns_ = batch_.query_columns() + 2 * batch_.key_columns();
    qkv_ = make_uniform(batch_.dtype, rows * qkv_columns_);
    dqkv_ = make_uniform(batch_.dtype, rows * qkv_columns_);
    context_ = make_uniform(batch_.dtype, rows * batch_.query_columns());
    dcontext_ = make_uniform(batch_.dtype, rows * batch_.query_columns());
    logsumexp_.assign(batch_.heads * rows, 0.0F);
    workspace_bytes_ = std::max(attention_forward_workspace_bytes(batch_, threads_),
                                attention_backward_workspace_bytes(batch_, threads_));
    workspace_ = make_buffer(workspace_bytes_);
  }
  void forward() {
    attention_forward({.batch = batch_,
                       .q = columns<ConstHeadRows>(qkv_, 0),
                       .k = columns<ConstHeadRows>(qkv_, batch_.query_columns()),
                       .v = columns<ConstHeadRows>(qkv_, batch_.query_columns() + batch_.key_columns()),
                       .context = context_.get(),
                       .logsumexp = logsumexp_.data(),
                       .threads = threads_,
                       .workspace = workspace_.get(),
                       .workspace_bytes = workspace_bytes_});
  }
  void backward() {
    attention_backward({.batch = batch_,
                        .dcontext = dcontext_.get(),
                        .q = columns<ConstHeadRows>(qkv_, 0),
                        .k = columns<ConstHeadRows>(qkv_, batch_.query_columns()),
                        .v = columns<ConstHeadRows>(qkv_, batch_.query_columns() + batch_.key_columns()),
                        .context = context_.get(),
                        .logsumexp = logsumexp_.data(),
                        .dq = columns<HeadRows>(dqkv_, 0),
                        .dk = columns<HeadRows>(dqkv_, batch_.query_columns()),
                        .dv = columns<HeadRows>(dqkv_, batch_.query_columns() + batch_.key_columns()),
                        .threads = threads_,
                        .workspace = workspace_.get(),
                        .workspace_bytes = workspace_bytes_});
  }
  void count_flops(benchmark::State& state, double flops_of_a_score) {
    const int64_t pairs = visible_pairs(batch_.mask, batch_.max_query_length, batch_.max_key_length);
    state.counters["flop/s"] = benchmark::Counter(
        flops_of_a_score * static_cast<double>(pairs * batch_.query_columns() * batch_.sequences),
        benchmark::Counter::kIsIterationInvariantRate);
  }

 private:
  template <class Rows>
  Rows columns(const Buffer& matrix, int64_t first) const {
    return {static_cast<std::byte*>(matrix.get()) + first * dtype_bytes(batch_.dtype), qkv_columns_};
  }

  AttentionBatch batch_;
  std::vector<int32_t> start_;
  std::vector<int32_t> length_;
  uint32_t step_ = 1;
  int64_t qkv_columns_ = 0;
  int threads_ = 1;
  Buffer qkv_ = make_buffer(0);
  Buffer dqkv_ = make_buffer(0);
  Buffer context_ = make_buffer(0);
  Buffer dcontext_ = make_buffer(0);
  std::vector<float> logsumexp_;
  Buffer workspace_ = make_buffer(0);
  int64_t workspace_bytes_ = 0;
};

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "D", "A", "B", "drop", "bf16", "K", "sees"})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  bench->Args({512, 64, 16, 4, 10, 0, 16, 0})
      ->Args({512, 64, 16, 4, 0, 0, 16, 0})
      ->Args({512, 64, 16, 4, 10, 1, 16, 0});
  bench->Args({128, 64, 12, 16, 10, 0, 12, 0})
      ->Args({2048, 64, 16, 1, 10, 0, 16, 0})
      ->Args({512, 128, 8, 4, 10, 0, 8, 0});
  // A decoder's: all keys beside causal and a window, each with heads of its own and with one for four.
  for (const int64_t key_value_heads : {16, 4}) {
    for (const int64_t sees : {0, 2048, 256}) bench->Args({2048, 64, 16, 1, 0, 1, key_value_heads, sees});
  }
}

BENCHMARK_DEFINE_F(AttentionBench, Forward)(benchmark::State& state) {
  forward();
  for (auto _ : state) forward();
  count_flops(state, 4);
}
BENCHMARK_REGISTER_F(AttentionBench, Forward)->Apply(shapes);

BENCHMARK_DEFINE_F(AttentionBench, Backward)(benchmark::State& state) {
  forward();
  backward();
  for (auto _ : state) backward();
  count_flops(state, 10);
}
BENCHMARK_REGISTER_F(AttentionBench, Backward)->Apply(shapes);

void attention_sgemm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const Buffer a = make_uniform(DType::kF32, n * n);
  const Buffer b = make_uniform(DType::kF32, n * n);
  const Buffer c = make_uniform(DType::kF32, n * n);
  for (auto _ : state) {
    dnnl::sgemm('N', 'N', n, n, n, 1.0F, static_cast<const float*>(a.get()), n,
                static_cast<const float*>(b.get()), n, 0.0F, static_cast<float*>(c.get()), n);
  }
  state.counters["flop/s"] =
      benchmark::Counter(2.0 * static_cast<double>(n * n * n), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_sgemm)
    ->Name("AttentionBench/Sgemm")
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
