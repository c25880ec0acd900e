// What the checksums of a checkpoint cost: the same tensors saved with and without them.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "io/checksummed_files.h"
#include "io/safetensors_writer.h"

namespace shoehorn {
namespace {

constexpr int64_t kTensorElements = int64_t{1} << 22;

// SHOEHORN_BENCH_DIR, or the system's temporary directory: a disk is measured where it is.
std::filesystem::path bench_directory() {
  const char* given = getenv("SHOEHORN_BENCH_DIR");
  const std::filesystem::path parent = given != nullptr ? given : std::filesystem::temp_directory_path();
  return parent / ("shoehorn_io_bench_" + std::to_string(getpid()));
}

// Saves a file of so many MiB and brings it to the disk.
class Save {
 public:
  explicit Save(int64_t mebibytes) : values_(static_cast<size_t>(kTensorElements)) {
    std::filesystem::create_directories(directory_);
    const int64_t count = mebibytes * (int64_t{1} << 20) / (kTensorElements * 4);
    for (int64_t i = 0; i < count; ++i)
      specs_.push_back({"tensor." + std::to_string(i), DType::kF32, {kTensorElements}});
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i) * 0.37F;
  }
  ~Save() { std::filesystem::remove_all(directory_); }
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  void run(bool is_checksummed) const {
    std::unique_ptr<ChecksummedFiles> checksums;
    if (is_checksummed) checksums = std::make_unique<ChecksummedFiles>(directory_, FileSync::kEach);
    SafetensorsWriter writer(directory_ / "model.safetensors", specs_);
    for (const TensorSpec& spec : writer.tensors())
      writer.append(spec.name, std::as_bytes(std::span(values_)));
    writer.commit();
  }

 private:
  std::filesystem::path directory_ = bench_directory();
  std::vector<TensorSpec> specs_;
  std::vector<float> values_;
};

// Argument 0: MiB of the file; argument 1: whether it is checksummed.
void save_safetensors(benchmark::State& state) {
  const Save save(state.range(0));
  for (auto turn : state) save.run(state.range(1) != 0);
  state.SetBytesProcessed(state.iterations() * state.range(0) * (int64_t{1} << 20));
}
BENCHMARK(save_safetensors)
    ->ArgNames({"MiB", "checksum"})
    ->ArgsProduct({{256, 1024}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

double seconds_of(const Save& save, bool is_checksummed) {
  const auto begin = std::chrono::steady_clock::now();
  save.run(is_checksummed);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A save takes twice as long as another of the same file, so that the cost shows in pairs of neighbours only: each turn is
// a save with and one without checksums, in alternating order. Counters: the median of the pairs' quotients, with over
// without, and the bounds that hold it with 95 % (ranks of the sign test).
void save_pairs(benchmark::State& state) {
  const Save save(state.range(0));
  std::vector<double> quotients;
  for (auto turn : state) {
    const bool first = quotients.size() % 2 == 0;
    const double one = seconds_of(save, first);
    const double other = seconds_of(save, !first);
    quotients.push_back(first ? one / other : other / one);
  }
  std::sort(quotients.begin(), quotients.end());
  const auto count = static_cast<double>(quotients.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2)));
  state.counters["times"] = quotients[quotients.size() / 2];
  state.counters["times_low"] = quotients[low];
  state.counters["times_high"] = quotients[quotients.size() - 1 - low];
}
BENCHMARK(save_pairs)
    ->ArgNames({"MiB"})
    ->Arg(256)
    ->Iterations(101)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The checksum alone, of what does not lie in a cache.
void checksum(benchmark::State& state) {
  const std::vector<std::byte> data(size_t{256} << 20, std::byte{7});
  for (auto turn : state) {
    ContentHash hash;
    hash.add(data);
    benchmark::DoNotOptimize(hash.hex());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(data.size()));
}
BENCHMARK(checksum)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoehorn
