// Time and quality (bytes over the lower bound) of packing.
#include <benchmark/benchmark.h>

#include "plan/pack.h"
#include "plan/pack_check.h"
#include "plan/pack_examples.h"

namespace shoehorn {
namespace {

void pack_repeatedly(benchmark::State& state, const std::vector<Interval>& intervals, int64_t effort) {
  Packing packing;
  for (auto _ : state) packing = pack(intervals, 64, 0, effort);
  state.counters["intervals"] = static_cast<double>(intervals.size());
  state.counters["over_bound"] =
      static_cast<double>(packing.bytes) / static_cast<double>(packing.lower_bound_bytes);
}

// layers, recompute, accumulate
void BM_pack_training_step(benchmark::State& state) {
  StepShape shape;
  shape.layers = state.range(0);
  shape.recompute = state.range(1) != 0;
  shape.accumulate = state.range(2) != 0;
  pack_repeatedly(state, TrainingStepExample(shape).make(), kDefaultPackEffort);
}
BENCHMARK(BM_pack_training_step)
    ->ArgsProduct({{12, 80}, {0, 1}, {0, 1}})
    ->Args({1250, 0, 0})
    ->Args({900, 1, 0})
    ->Unit(benchmark::kMillisecond);

// count, longest life
void BM_pack_random(benchmark::State& state) {
  ExampleRandom random(1);
  const int64_t count = state.range(0);
  pack_repeatedly(state, random_intervals(random, count, 2 * count, state.range(1), 1 << 20),
                  kDefaultPackEffort);
}
BENCHMARK(BM_pack_random)->ArgsProduct({{300, 3000, 50'000}, {20, 1000}})->Unit(benchmark::kMillisecond);

void BM_validate_no_overlap(benchmark::State& state) {
  const std::vector<Interval> intervals = TrainingStepExample({.layers = state.range(0)}).make();
  const Packing packing = pack(intervals, 64, 0, 0);
  for (auto _ : state) validate_no_overlap(intervals, packing.offsets, 64, packing.bytes);
}
BENCHMARK(BM_validate_no_overlap)->Arg(80)->Arg(1250)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoehorn
