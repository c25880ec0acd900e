#include "train/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/content_hash.h"
#include "base/error.h"
#include "data/part_source.h"
#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "io/input_stream.h"
#include "io/model_directory.h"
#include "io/user_cache.h"

namespace shoehorn {

TokenizeFunction tokenize_with(const Tokenizer& tokenizer, int64_t max_length, int threads) {
  return [&tokenizer, max_length, threads](std::span<const TextExample> examples) {
    std::vector<TextPair> texts;
    texts.reserve(examples.size());
    for (const TextExample& example : examples) {
      texts.push_back({example.text, example.has_pair ? std::optional(example.pair) : std::nullopt});
    }
    std::vector<TokenizedExample> tokenized;
    tokenized.reserve(examples.size());
    for (Encoding& encoding : tokenizer.encode_batch(texts, max_length, threads)) {
      tokenized.push_back({std::move(encoding.input_ids), std::move(encoding.token_type_ids)});
    }
    return tokenized;
  };
}

LoadedDataset load_dataset(const DataFiles& files, const Tokenizer& tokenizer, int64_t max_length,
                           const LoadOptions& options) {
  return load_dataset(files, tokenize_with(tokenizer, max_length, thread_count().threads), options);
}

LoadedDataset load_dataset(const DataFiles& files, const Tokenizer& tokenizer, int64_t max_length,
                           const LoadOptions& options, const DatasetCacheOptions& cache) {
  if (cache.directory.empty()) return load_dataset(files, tokenizer, max_length, options);
  return load_cached_dataset(files, tokenize_with(tokenizer, max_length, thread_count().threads), options,
                             cache);
}

std::filesystem::path dataset_cache_of(const TrainingArguments& args) {
  if (args.dataset_cache == kNoDatasetCache) return {};
  if (!args.dataset_cache.empty()) return args.dataset_cache;
  if (args.world_size == 1) return {};
  std::filesystem::path directory = user_cache_directory("data_sets");
  try {
    ensure_writable_directory(directory);
  } catch (const UserError&) {
    return {};
  } catch (const SystemError&) {
    return {};
  }
  return directory;
}

DatasetCacheOptions cache_options_of(const TrainingArguments& args, const DataFiles& texts,
                                     const std::vector<std::filesystem::path>& tokenizer_files,
                                     int64_t max_length) {
  if (args.dataset_cache.empty() && std::ranges::any_of(texts.paths(), is_standard_input)) return {};
  DatasetCacheOptions cache{.directory = dataset_cache_of(args), .overwrite = args.overwrite_cache};
  if (cache.directory.empty()) return cache;
  ContentHash hash;
  for (const std::filesystem::path& file : tokenizer_files) {
    const std::string text = read_text_file(file);
    const std::string head = fmt::format("{} {} ", companion_name(file), text.size());
    hash.add(std::as_bytes(std::span(head)));
    hash.add(std::as_bytes(std::span(text)));
  }
  cache.tokenizer = fmt::format("{} {}", hash.hex(), max_length);
  return cache;
}

LoadOptions load_options_of(const TrainingArguments& args) {
  LoadOptions options;
  options.columns.text_column_names = text_columns_of(args);
  options.columns.label_column_name = args.label_column_name;
  options.columns.id_column_name = args.id_column;
  options.memory_budget_bytes = args.memory_budget;
  return options;
}

int64_t samples_to_evaluate_on(const TrainingArguments& args, int64_t samples, int64_t standard_percentage) {
  if (!args.validation_file.empty()) return 0;
  const int64_t percentage = args.validation_split_percentage.value_or(standard_percentage);
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(percentage * samples) / 100.0));
}

Dataset part_of(const Dataset& dataset, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  if (begin == 0 && end == dataset.size()) return dataset;
  return Dataset(std::make_shared<const PartSource>(dataset.shared_source(), begin, end));
}

}  // namespace shoehorn
