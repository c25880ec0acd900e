// Updates of 16 M elements, far larger than the caches and on huge pages, as a training step finds its
// weights, gradients and states.
//
// Bytes an element: AdamW 28 (weight and both moments read and written, gradient read), AdamW with states in
// 8 bits 16 (codes in place of moments, a scale for 256), Adafactor 16 (gradient read twice, weight read and
// written), an array of floats in place 8.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/median.h"
#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/optimizers/adafactor.h"
#include "exec/cpu/optimizers/optimizer_8bit.h"

namespace shoehorn::cpu {
namespace {

constexpr int64_t kTensors = 16;
constexpr int64_t kRows = 1024;
constexpr int64_t kColumns = 1024;
constexpr int64_t kCount = kRows * kColumns;
constexpr int64_t kAll = kTensors * kCount;

// Zeroed memory as the arenas have it.
template <class T>
class Pages {
 public:
  explicit Pages(int64_t count) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
    data_.reset(static_cast<T*>(std::aligned_alloc(kHugePage, bytes)));
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
    std::fill_n(data_.get(), count, T{});
  }
  T* operator+(int64_t i) const { return data_.get() + i; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
};

// Gradients of all magnitudes, so that moments in 8 bits have all codes.
struct Buffers {
  explicit Buffers(bool is_split) : split(is_split) {
    uint32_t random = 1;
    for (int64_t i = 0; i < kAll; ++i) {
      random = random * 1664525 + 1013904223;
      const float g = static_cast<float>(static_cast<int32_t>(random)) * 0x1p-31F;
      *(gradient + i) = g * g * g;
      *(weight + i) = 0.5F;
      *(high + i) = bfloat16{0x3f00};
    }
  }
  WeightView view(int64_t at) const {
    if (split) return {.value = nullptr, .high = high + at, .rest = rest + at};
    return {.value = weight + at};
  }
  std::vector<StatefulTensor> in_32_bits() const {
    std::vector<StatefulTensor> list;
    for (int64_t at = 0; at < kAll; at += kCount) {
      list.push_back({.count = kCount,
                      .weight = view(at),
                      .gradient_dtype = DType::kF32,
                      .gradient = gradient + at,
                      .states = {m + at, v + at},
                      .weight_decay = 0.01F});
    }
    return list;
  }
  std::vector<EightBitTensor> in_8_bits() const {
    std::vector<EightBitTensor> list;
    for (int64_t at = 0; at < kAll; at += kCount) {
      list.push_back({.count = kCount,
                      .weight = view(at),
                      .gradient_dtype = DType::kF32,
                      .gradient = gradient + at,
                      .codes = {m_codes + at, v_codes + at},
                      .scales = {m_scales + at / kStateBlock, v_scales + at / kStateBlock},
                      .weight_decay = 0.01F});
    }
    return list;
  }
  std::vector<AdafactorParameter> as_matrices() const {
    std::vector<AdafactorParameter> list;
    for (int64_t at = 0; at < kAll; at += kCount) {
      list.push_back({.rows = kRows,
                      .columns = kColumns,
                      .weight = view(at),
                      .gradient = gradient + at,
                      .row_moment = m + at,
                      .column_moment = v + at,
                      .second_moment = nullptr,
                      .first_moment = nullptr,
                      .weight_decay = 0.01F});
    }
    return list;
  }

  bool split;
  Pages<float> weight{kAll}, gradient{kAll}, m{kAll}, v{kAll};
  Pages<bfloat16> high{kAll};
  Pages<int16_t> rest{kAll};
  Pages<uint8_t> m_codes{kAll}, v_codes{kAll};
  Pages<float> m_scales{kAll / kStateBlock}, v_scales{kAll / kStateBlock};
};

const float kLearningRate = 1e-3F, kCoefficient = 0.9F;
const uint32_t kApplied = 10;
const UpdateScalars kScalars{.learning_rate = &kLearningRate, .gradient_scale = &kCoefficient};

template <class Update>
void bench(benchmark::State& state, int64_t bytes, const Update& update) {
  for (auto _ : state) update();
  state.SetBytesProcessed(state.iterations() * kAll * bytes);
}

// Argument of all: 1 for split masters.
void bench_adamw(benchmark::State& state) {
  const Buffers buffers(state.range(0) == 1);
  bench(state, 28, [&, list = buffers.in_32_bits()] { adamw_update(list, {}, kScalars, &kApplied); });
}
BENCHMARK(bench_adamw)->Arg(0)->Arg(1)->UseRealTime();

void bench_adamw_8bit(benchmark::State& state) {
  const Buffers buffers(state.range(0) == 1);
  bench(state, 16, [&, list = buffers.in_8_bits()] { adamw_8bit_update(list, {}, kScalars, &kApplied); });
}
BENCHMARK(bench_adamw_8bit)->Arg(0)->Arg(1)->UseRealTime();

void bench_adafactor(benchmark::State& state) {
  const Buffers buffers(state.range(0) == 1);
  const Pages<std::byte> workspace(adafactor_workspace_bytes(1, kRows, kColumns));
  bench(state, 16, [&, list = buffers.as_matrices()] {
    adafactor_update(list, {}, kScalars, &kApplied, workspace + 0);
  });
}
BENCHMARK(bench_adafactor)->Arg(0)->Arg(1)->UseRealTime();

// Medians of rounds that change one array in place and run all updates in turns, so that what disturbs the
// machine disturbs all. `share` is of the bandwidth of the same round's array.
void bench_updates_in_turns(benchmark::State& state) {
  struct Side {
    const char* name;
    int64_t bytes;
    std::function<void()> run;
    std::vector<double> seconds = {}, share = {}, of_adamw = {};
  };
  const Buffers buffers(state.range(0) == 1);
  const Pages<float> values(kAll);
  const float one = 1;
  const Pages<std::byte> workspace(adafactor_workspace_bytes(1, kRows, kColumns));
  std::vector<Side> sides = {
      {"in_place", 8,
       [&] {
         scale({.dtype = DType::kF32, .count = kAll, .x = values + 0, .factor = &one, .y = values + 0});
       }},
      {"adamw", 28, [&, list = buffers.in_32_bits()] { adamw_update(list, {}, kScalars, &kApplied); }},
      {"adamw_8bit", 16,
       [&, list = buffers.in_8_bits()] { adamw_8bit_update(list, {}, kScalars, &kApplied); }},
      {"adafactor", 16, [&, list = buffers.as_matrices()] {
         adafactor_update(list, {}, kScalars, &kApplied, workspace + 0);
       }}};
  for (auto _ : state) {
    for (Side& side : sides) {
      const auto start = std::chrono::steady_clock::now();
      side.run();
      side.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      const double floor = sides[0].seconds.back() * static_cast<double>(side.bytes) / 8.0;
      side.share.push_back(floor / side.seconds.back());
    }
    for (Side& side : sides) side.of_adamw.push_back(side.seconds.back() / sides[1].seconds.back());
  }
  for (const Side& side : sides) {
    const std::string name = side.name;
    state.counters[name + "_ms"] = 1e3 * median(side.seconds);
    state.counters[name + "_share"] = median(side.share);
    state.counters[name + "_of_adamw"] = median(side.of_adamw);
  }
}
BENCHMARK(bench_updates_in_turns)->Arg(0)->Arg(1)->Iterations(21)->UseRealTime();

}  // namespace
}  // namespace shoehorn::cpu
