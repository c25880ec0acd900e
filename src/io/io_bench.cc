// What the checksums of a checkpoint cost: the same tensors saved with and without them.
#include <benchmark/benchmark.h>
#include <unistd.h>

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

// Argument 0: MiB of the file; argument 1: whether it is checksummed. The file is brought to the disk each time.
void save_safetensors(benchmark::State& state) {
  const std::filesystem::path directory = bench_directory();
  std::filesystem::create_directories(directory);
  const int64_t count = state.range(0) * (int64_t{1} << 20) / (kTensorElements * 4);
  std::vector<TensorSpec> specs;
  for (int64_t i = 0; i < count; ++i)
    specs.push_back({"tensor." + std::to_string(i), DType::kF32, {kTensorElements}});
  std::vector<float> values(static_cast<size_t>(kTensorElements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37F;
  std::unique_ptr<ChecksummedFiles> checksums;
  if (state.range(1) != 0) checksums = std::make_unique<ChecksummedFiles>(directory);
  for (auto turn : state) {
    SafetensorsWriter writer(directory / "model.safetensors", specs);
    for (const TensorSpec& spec : writer.tensors())
      writer.append(spec.name, std::as_bytes(std::span(values)));
    writer.commit();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * (int64_t{1} << 20));
  std::filesystem::remove_all(directory);
}
BENCHMARK(save_safetensors)
    ->ArgNames({"MiB", "checksum"})
    ->ArgsProduct({{256, 1024}, {0, 1}})
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
