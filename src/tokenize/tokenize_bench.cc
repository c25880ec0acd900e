// Rate and loading time of the tokenizer.
//
//   SHOEHORN_MINILM_DIR   a model directory, of any tokenizer; without it nothing is measured
//   SHOEHORN_BENCH_TEXTS  a file of texts, one a line; a tab in a line separates the two texts of a pair
//
// bench/peers/tokenizer_rate.py runs this in turn with Hugging Face's tokenizers.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>

#include "tokenize/tokenizer.h"

namespace shoehorn {
namespace {

const char* model_dir() {
  return std::getenv("SHOEHORN_MINILM_DIR");
}

struct Texts {
  std::string bytes;
  std::vector<TextPair> pairs;
};

Texts read_texts(const char* path) {
  Texts texts;
  std::ifstream stream(path, std::ios::binary);
  texts.bytes.assign(std::istreambuf_iterator<char>(stream), {});
  const std::string_view all = texts.bytes;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = all.substr(begin, end - begin);
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos)
      texts.pairs.push_back({line, std::nullopt});
    else
      texts.pairs.push_back({line.substr(0, tab), line.substr(tab + 1)});
    begin = end + 1;
  }
  return texts;
}

void load_tokenizer(benchmark::State& state) {
  if (model_dir() == nullptr) return state.SkipWithError("SHOEHORN_MINILM_DIR is not set");
  int64_t table_bytes = 0;
  for (auto _ : state) table_bytes = Tokenizer::load(model_dir())->table_bytes();
  state.counters["table_bytes"] = static_cast<double>(table_bytes);
}
BENCHMARK(load_tokenizer)->Unit(benchmark::kMillisecond);

void encode_batch(benchmark::State& state) {
  const char* path = std::getenv("SHOEHORN_BENCH_TEXTS");
  if (model_dir() == nullptr || path == nullptr)
    return state.SkipWithError("SHOEHORN_MINILM_DIR or SHOEHORN_BENCH_TEXTS is not set");
  const auto tokenizer = Tokenizer::load(model_dir());
  const Texts texts = read_texts(path);
  for (auto _ : state)
    benchmark::DoNotOptimize(tokenizer->encode_batch(texts.pairs, 128, static_cast<int>(state.range(0))));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(texts.pairs.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(texts.bytes.size()));
}
BENCHMARK(encode_batch)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoehorn
