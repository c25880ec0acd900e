#include "train/language_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "arguments/block_arguments.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "data/joined_source.h"
#include "data/texts.h"
#include "exec/backend/thread_count.h"
#include "train/text_data.h"

namespace shoehorn {
namespace {

// run_clm's, where model and tokenizer take more than it wants to.
constexpr int64_t kUsualBlockSize = 1024;
constexpr int64_t kUsualSplitPercentage = 5;

std::optional<int32_t> end_token_of(const TrainingArguments& args, const Tokenizer& tokenizer) {
  if (!args.add_eos) return std::nullopt;
  if (tokenizer.eos_id() < 0) {
    throw user_error(
        "[add_eos] expected a tokenizer with an end token, got one that names none of its tokens; name one of them as eos_token in "
        "tokenizer_config.json");
  }
  return tokenizer.eos_id();
}

// A program looks up whatever it is given.
void check_vocabulary(const LoadedTexts& loaded, const std::string& file, const LanguageReader& reader) {
  const int64_t vocabulary = reader.model.vocab_size;
  if (loaded.texts.facts().of(TokenStream::kInput).largest_id < vocabulary) return;
  for (int64_t text = 0; text < loaded.texts.size(); ++text) {
    for (const int32_t id : loaded.texts.input_ids(text)) {
      if (id < vocabulary) continue;
      throw user_error(
          "[{}] expected token ids below {}, the model's vocabulary, got {} ('{}') in text {}; is the tokenizer "
          "the model's?",
          file, vocabulary, id, reader.tokenizer.token_of(id), text + 1);
    }
  }
}

LoadedTexts load_files(const TrainingArguments& args, const LanguageReader& reader, const DataFiles& files,
                       std::string& notices) {
  const std::string file = files.name();
  TextOptions options;
  if (!args.text_column_names.empty()) options.text_column = args.text_column_names.front();
  options.preferred_text_column = reader.preferred_text_column;
  options.keep_linebreaks = args.keep_linebreaks;
  options.end_token = end_token_of(args, reader.tokenizer);
  options.memory_budget_bytes = args.memory_budget;
  options.on_progress = reader.on_progress;
  const TokenizeFunction tokenize = tokenize_with(reader.tokenizer, kNoTruncation, thread_count().threads);
  DatasetCacheOptions cache = cache_options_of(args, files, reader.tokenizer_files, kNoTruncation);
  cache.on_progress = reader.on_cache_progress;
  LoadedTexts loaded = cache.directory.empty() ? load_texts(files, tokenize, options)
                                               : load_cached_texts(files, tokenize, options, cache);
  check_vocabulary(loaded, file, reader);
  if (loaded.invalid_utf8 > 0) {
    notices +=
        fmt::format("{}: {} ill-formed stretches of UTF-8 are read as U+FFFD\n", file, loaded.invalid_utf8);
  }
  if (!loaded.files.empty())
    notices += fmt::format("{}: tokenized texts are read from {}\n", file, loaded.files.string());
  return loaded;
}

// A range of a file's texts, and the flag that limits its blocks.
struct Part {
  std::string file;
  std::string name;  // of the texts, for people
  int64_t first_text = 0;
  int64_t texts = 0;
  std::optional<int64_t> max_blocks = {};
  std::string_view max_blocks_flag = {};
};

// `column`: that of the texts; empty for lines.
std::string format_blocks(const Part& part, const std::string& column, const BlockCounts& counts,
                          const BlockOptions& options) {
  std::string line =
      fmt::format("{}{}: {}, {} of {}{}", part.name, column.empty() ? "" : fmt::format(", column {}", column),
                  plural_count(counts.tokens, "token"), plural_count(counts.blocks, "block"),
                  counts.short_blocks > 0 ? "up to " : "", plural_count(options.block_size, "token"));
  const auto add = [&](int64_t count, std::string_view noun, std::string_view of_one,
                       std::string_view of_many) {
    if (count > 0) line += fmt::format("; {} {}", plural_count(count, noun), count == 1 ? of_one : of_many);
  };
  if (options.packing == BlockPacking::kDocuments && counts.blocks > 0) {
    line +=
        fmt::format(", {} on average", format_count(std::llround(static_cast<double>(counts.block_tokens) /
                                                                 static_cast<double>(counts.blocks))));
  }
  add(counts.cut_texts, "text", "longer than a block is cut into several",
      "longer than a block are cut into several");
  if (options.remainder == BlockRemainder::kRunClm)
    add(counts.left_over_tokens, "token", "left over from each 1,000 texts is not used",
        "left over from each 1,000 texts are not used");
  else
    add(counts.left_over_tokens, "token", "left over at the end is not used",
        "left over at the end are not used");
  add(counts.empty_texts, "text", "has no token", "have no token");
  if (counts.unused_blocks > 0) {
    line += fmt::format("; {} behind the first {} ({}) {} not used",
                        plural_count(counts.unused_blocks, "block"), format_count(counts.blocks),
                        part.max_blocks_flag, counts.unused_blocks == 1 ? "is" : "are");
  }
  return line + "\n";
}

LanguageBlocks cut(const TrainingArguments& args, const LoadedTexts& loaded, const Part& part,
                   std::string& summary) {
  BlockOptions options = block_options_of(args);
  options.first_text = part.first_text;
  options.texts = part.texts;
  options.max_blocks = part.max_blocks.value_or(0);
  LanguageBlocks blocks;
  blocks.dataset = Dataset::next_token(cut_blocks(loaded.texts, options, &blocks.counts));
  summary += format_blocks(part, loaded.text_column, blocks.counts, options);
  return blocks;
}

void check_has_blocks(const LanguageBlocks& blocks, const Part& part, int64_t block_size) {
  if (blocks.dataset.size() > 0) return;
  throw user_error(
      "[{}] expected texts of at least one block of {} tokens, got {} tokens in {}; use a smaller --block_size, or "
      "--block_remainder keep",
      part.file, block_size, blocks.counts.tokens, part.name);
}

Part whole_file(const std::string& file, const LoadedTexts& loaded) {
  return {.file = file,
          .name = fmt::format("{}: {}", file, plural_count(loaded.texts.size(), "text")),
          .texts = loaded.texts.size()};
}

bool evaluates(const TrainingArguments& args) {
  return args.do_eval.value_or(true) || args.eval_on_start;
}

}  // namespace

std::string fit_block_size(TrainingArguments& args, const LanguageModelLimits& model,
                           const Tokenizer* tokenizer) {
  const int64_t of_tokenizer =
      tokenizer == nullptr ? std::numeric_limits<int64_t>::max() : tokenizer->model_max_length();
  const std::optional<int64_t> given = args.block_size;
  const int64_t positions =
      given || model.max_position_embeddings == 0 ? model.max_positions : model.max_position_embeddings;
  const int64_t most = std::min(positions, of_tokenizer);
  args.block_size = std::min(given.value_or(kUsualBlockSize), most);
  const char* const limit = model.max_positions <= of_tokenizer ? "the model has no more positions"
                                                                : "the tokenizer's model_max_length";
  if (given && *given > most)
    return fmt::format("block_size: {} tokens in place of {}: {}\n", most, *given, limit);
  if (!given && most > kUsualBlockSize) {
    return fmt::format("block_size: {} tokens, where the model takes up to {}; --block_size gives another\n",
                       kUsualBlockSize, most);
  }
  return {};
}

LanguageBlocks load_evaluation_blocks(const TrainingArguments& args, const LanguageReader& reader,
                                      const DataFiles& files, std::string& summary, std::string& notices) {
  const LoadedTexts loaded = load_files(args, reader, files, notices);
  Part part = whole_file(files.name(), loaded);
  part.max_blocks = args.max_eval_samples;
  part.max_blocks_flag = "--max_eval_samples";
  LanguageBlocks blocks = cut(args, loaded, part, summary);
  check_has_blocks(blocks, part, *args.block_size);
  return blocks;
}

namespace {

// The blocks of one set of files: those to train on, and those to evaluate on where the files are split for that.
struct FileBlocks {
  std::string file;
  LanguageBlocks train = {};
  LanguageBlocks validation = {};
};

bool evaluates_on_split(const TrainingArguments& args) {
  return evaluates(args) && args.validation_file.empty() &&
         args.validation_split_percentage.value_or(kUsualSplitPercentage) > 0;
}

FileBlocks load_file_blocks(const TrainingArguments& args, const LanguageReader& reader,
                            const DataFiles& files, std::optional<int64_t> max_eval_blocks,
                            LanguageData& data) {
  FileBlocks blocks{.file = files.name()};
  const LoadedTexts loaded = load_files(args, reader, files, data.notices);
  Part train = whole_file(blocks.file, loaded);
  train.max_blocks = args.max_train_samples;
  train.max_blocks_flag = "--max_train_samples";
  const int64_t split = samples_to_evaluate_on(args, loaded.texts.size(), kUsualSplitPercentage);
  if (split > 0) {
    train.first_text = split;
    train.texts -= split;
    train.name = fmt::format("{}: all but the first {} of {} texts", blocks.file, format_count(split),
                             format_count(loaded.texts.size()));
  }
  blocks.train = cut(args, loaded, train, data.summary);
  check_has_blocks(blocks.train, train, *args.block_size);
  if (!evaluates_on_split(args) || max_eval_blocks == 0) return blocks;
  const Part validation{.file = blocks.file,
                        .name = fmt::format("{}: the first {} of {} texts, to evaluate on", blocks.file,
                                            format_count(split), format_count(loaded.texts.size())),
                        .texts = split,
                        .max_blocks = max_eval_blocks,
                        .max_blocks_flag = "--max_eval_samples"};
  blocks.validation = cut(args, loaded, validation, data.summary);
  return blocks;
}

std::string format_mixture(const Mixture& mixture) {
  const bool waits_for_all = mixture.strategy() == StoppingStrategy::kAllExhausted;
  std::string line =
      fmt::format("mixed by weight, {} an epoch (until {}):", plural_count(mixture.epoch_size(), "block"),
                  waits_for_all ? "all files have been used up" : "the first file is used up");
  for (int64_t set = 0; set < mixture.sets(); ++set) {
    line += fmt::format("{} {:.2f}% {}", set > 0 ? "," : "", 100 * mixture.share(set), mixture.set(set).name);
  }
  return line + "\n";
}

// Files that are mixed by weight, or the one set of all files.
std::vector<DataFiles> training_files(const TrainingArguments& args) {
  if (args.train_file_weights.empty()) return {find_data_files("--train_file", args.train_file)};
  std::vector<DataFiles> sets = find_data_file_sets("--train_file", args.train_file);
  if (sets.size() == args.train_file_weights.size()) return sets;
  throw user_error("[train_file_weights] expected {}, one for each name in --train_file, got {}: {}",
                   plural_count(std::ssize(sets), "number"), args.train_file_weights.size(),
                   fmt::join(args.train_file_weights, ", "));
}

void join_training_blocks(const TrainingArguments& args, std::vector<FileBlocks>& sets, LanguageData& data) {
  if (args.train_file_weights.empty()) {
    data.train = std::move(sets.front().train);
    return;
  }
  const std::vector<double> weights = train_file_weights_of(args);
  std::vector<WeightedDataset> weighted;
  for (size_t i = 0; i < sets.size(); ++i) {
    weighted.push_back(
        {.name = sets[i].file, .dataset = std::move(sets[i].train.dataset), .weight = weights[i]});
    data.train.counts += sets[i].train.counts;
  }
  data.train.dataset = interleave_datasets(weighted, stopping_strategy_of(args));
  data.summary += format_mixture(*data.train.dataset.source().mixture());
}

// One set behind the other.
void join_validation_blocks(std::vector<FileBlocks>& sets, LanguageData& data) {
  std::vector<Dataset> parts;
  for (FileBlocks& set : sets) {
    if (set.validation.dataset.size() > 0) parts.push_back(std::move(set.validation.dataset));
    data.validation.counts += set.validation.counts;
  }
  if (parts.empty()) return;
  data.validation.dataset = parts.size() == 1 ? std::move(parts.front()) : concatenate_datasets(parts);
}

}  // namespace

LanguageData load_language_data(TrainingArguments& args, const LanguageReader& reader) {
  LanguageData data;
  data.notices = fit_block_size(args, reader.model, &reader.tokenizer);
  std::vector<FileBlocks> sets;
  std::optional<int64_t> eval_blocks_left = args.max_eval_samples;
  for (const DataFiles& files : training_files(args)) {
    sets.push_back(load_file_blocks(args, reader, files, eval_blocks_left, data));
    if (eval_blocks_left) *eval_blocks_left -= sets.back().validation.dataset.size();
  }
  join_training_blocks(args, sets, data);
  join_validation_blocks(sets, data);
  if (evaluates(args) && !args.validation_file.empty()) {
    data.validation = load_evaluation_blocks(
        args, reader, find_data_files("--validation_file", args.validation_file), data.summary, data.notices);
  } else if (evaluates_on_split(args) && data.validation.dataset.size() == 0) {
    data.notices += fmt::format(
        "{}: {} percent of the texts are no block, and nothing is evaluated; give a --validation_file, or another "
        "--validation_split_percentage\n",
        sets.size() == 1 ? sets.front().file : args.train_file,
        args.validation_split_percentage.value_or(kUsualSplitPercentage));
  }
  return data;
}

}  // namespace shoehorn
