// Rates of the data layer: reading a file, making an order, packing, drawing initial weights.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"
#include "data/shard_testing.h"
#include "data/table.h"
#include "data/torch_random.h"

namespace shoehorn {
namespace {

// The same 200,000 pairs of sentences in each format: argument 0 csv, 1 tsv, 2 JSON lines.
void read_table_bench(benchmark::State& state) {
  const std::vector<std::string> names = {"csv", "tsv", "jsonl"};
  const std::string& format = names[static_cast<size_t>(state.range(0))];
  const auto path =
      std::filesystem::temp_directory_path() / ("shoehorn_bench_" + std::to_string(getpid()) + "." + format);
  {
    std::ofstream file(path);
    const std::string first =
        "Amid the rain, the harbour master closed both locks at noon and sent the crews home";
    const std::string second =
        "The locks were closed at twelve by the harbour master because of the heavy rain";
    if (format == "csv") file << "label,sentence1,sentence2\n";
    if (format == "tsv") file << "label\tsentence1\tsentence2\n";
    for (int i = 0; i < 200000; ++i) {
      if (format == "csv") file << i % 2 << ",\"" << first << "\"," << second << i << "\n";
      if (format == "tsv") file << i % 2 << "\t" << first << "\t" << second << i << "\n";
      if (format == "jsonl") {
        file << R"({"label": )" << i % 2 << R"(, "sentence1": ")" << first << R"(", "sentence2": ")" << second
             << i << "\"}\n";
      }
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(read_table(path));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(std::filesystem::file_size(path)));
  state.SetLabel(format);
  std::filesystem::remove(path);
}
BENCHMARK(read_table_bench)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

void epoch_order_bench(benchmark::State& state) {
  const std::vector<int32_t> lengths(1000000, 5);
  Sampler sampler({.strategy = static_cast<SamplingStrategy>(state.range(0)), .group_size = 32}, lengths);
  std::vector<int64_t> order(lengths.size());
  for (auto _ : state) sampler.epoch_order(0, order);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(order.size()));
}
BENCHMARK(epoch_order_bench)
    ->Arg(static_cast<int64_t>(SamplingStrategy::kRandom))
    ->Arg(static_cast<int64_t>(SamplingStrategy::kGroupByLength))
    ->Unit(benchmark::kMillisecond);

// Arguments: tokens of a sample; 0 from memory, 1 from files in the page cache.
void pack_bench(benchmark::State& state) {
  Dataset dataset = Dataset::random_tokens({.count = 512, .length = state.range(0)});
  const auto directory =
      std::filesystem::temp_directory_path() / ("shoehorn_bench_" + std::to_string(getpid()));
  if (state.range(1) == 1) {
    std::filesystem::create_directories(directory);
    std::vector<std::string> names;
    dataset = in_shards(dataset, directory, names);
    state.SetLabel("files");
  }
  const BatchOptions options{.micro_batch_size = 8};
  const BatchCapacity capacity = micro_batch_capacity(dataset, options);
  std::vector<std::byte> memory(static_cast<size_t>(micro_batch_bytes(capacity, dataset.label_shape())));
  MicroBatch batch = lay_out_micro_batch(memory, capacity, dataset.label_shape());
  std::vector<int64_t> samples(8);
  int64_t next = 0;
  for (auto _ : state) {
    for (int64_t& sample : samples) sample = next++ % dataset.size();
    pack_micro_batch(dataset, samples, 0, options, batch);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * 8 * state.range(0));
  std::filesystem::remove_all(directory);
}
BENCHMARK(pack_bench)->ArgsProduct({{40, 512}, {0, 1}});

void normal_bench(benchmark::State& state) {
  std::vector<float> values(1 << 20);
  TorchGenerator generator(1);
  for (auto _ : state) generator.normal(values, 0.0, 0.02);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(values.size()));
}
BENCHMARK(normal_bench)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoehorn
