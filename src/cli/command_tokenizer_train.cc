#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/thread_option.h"
#include "data/data_format.h"
#include "data/texts.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/input_stream.h"
#include "io/json_file.h"
#include "tokenize/bpe_tokenizer_file.h"
#include "tokenize/bpe_trainer.h"
#include "train/progress.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;
using enum ArgumentKind;

constexpr const char* kTrainUsage =
    R"(Trains a byte-level BPE tokenizer on texts: the vocabulary and merges of BpeTrainer in Hugging Face's tokenizers.

  shoehorn tokenizer train --output_dir DIR --vocab_size N [FLAGS] FILE …

Each line of a FILE is a text. Of .csv, .tsv, .jsonl and .json each row is one, as train reads them: the column that
--text_column_names says, else "text", else the first. A FILE may be compressed (.gz, .zst), or - for standard input,
and larger than memory, which holds the different words of the texts. DIR gets tokenizer.json and tokenizer_config.json,
which transformers' AutoTokenizer reads too.
)";

const std::vector<ArgumentSpec>& tokenizer_train_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "output_dir",
       .kind = kText,
       .standard = std::string(),
       .value = "DIR",
       .help = "required: where the files go"},
      {.name = "overwrite_output_dir",
       .kind = kFlag,
       .standard = false,
       .help = "replace the tokenizer that the directory has"},
      {.name = "vocab_size",
       .kind = kInteger,
       .help = "required: number of tokens, with special tokens and alphabet"},
      {.name = "min_frequency",
       .kind = kInteger,
       .standard = int64_t{2},
       .help = "a pair of tokens that occurs less often is not merged"},
      {.name = "pre_tokenizer",
       .kind = kText,
       .standard = std::string("gpt2"),
       .help = "how texts are cut into words",
       .choices = {{"gpt2"}, {"llama3"}, {"qwen2"}}},
      {.name = "normalizer",
       .kind = kText,
       .standard = std::string("none"),
       .help = "how texts are normalized before; nfc as for Qwen",
       .choices = {{"none"}, {"nfc"}}},
      {.name = "special_tokens",
       .kind = kText,
       .standard = std::string("<|endoftext|>"),
       .help = "with commas between them; they get the first ids"},
      {.name = "bos_token",
       .kind = kText,
       .standard = std::string(),
       .help = "which special token begins a text; the only one if there is one"},
      {.name = "eos_token",
       .kind = kText,
       .standard = std::string(),
       .help = "which ends a text; the only one if there is one"},
      {.name = "unk_token",
       .kind = kText,
       .standard = std::string(),
       .help = "which stands for unknown text; the only one if there is one"},
      {.name = "pad_token", .kind = kText, .standard = std::string(), .help = "which pads a text"},
      {.name = "model_max_length",
       .kind = kInteger,
       .help = "tokens that the model can read, for tokenizer_config.json"},
      {.name = "initial_alphabet",
       .kind = kText,
       .standard = std::string("bytes"),
       .help =
           "bytes: every byte has a token; texts: those that the texts have, others are dropped when encoding",
       .choices = {{"bytes"}, {"texts"}}},
      {.name = "limit_alphabet",
       .kind = kInteger,
       .help = "of the bytes that the texts have, only so many, the most frequent"},
      {.name = "text_column_names",
       .kind = kText,
       .standard = std::string(),
       .help = "the column of the texts, in files that have columns",
       .aliases = {"text_column_name"}},
      num_threads_row(),
      {.name = "json", .kind = kFlag, .standard = false, .help = "print the result as a JSON object"},
  };
  return rows;
}

// The rows of a table are the texts that training reads in them.
class TableTexts final : public TextSource {
 public:
  TableTexts(fs::path path, std::string text_column)
      : path_(std::move(path)), text_column_(std::move(text_column)) {}

  int64_t read(const std::function<void(const TextBatch& batch)>& take) override {
    constexpr int64_t kRowsAtATime = 1024;
    TextBatch batch;
    const auto add = [&](std::span<const std::string_view> texts) {
      for (const std::string_view text : texts) batch.append(text);
      if (std::ssize(batch.bytes) < kBatchBytes) return;
      take(batch);
      batch.clear();
    };
    const TextRows rows = read_texts(path_, {.text_column = text_column_}, kRowsAtATime, add);
    take(batch);
    return rows.invalid_utf8;
  }

 private:
  fs::path path_;
  std::string text_column_;
};

struct Sources {
  std::vector<std::unique_ptr<TextSource>> owned;
  std::vector<TextSource*> all;
  int64_t text_bytes = 0;  // 0: not known before they are read
};

// Every file is opened before the first is read.
Sources open_sources(const std::vector<std::string>& paths, const std::string& text_column) {
  Sources sources;
  bool is_known = true;
  for (const std::string& path : paths) {
    is_known = is_known && !is_standard_input(path) && without_compression(path) == path;
    if (is_known) sources.text_bytes += ReadOnlyFile::open(path).bytes();
    if (is_named_as_table(path))
      sources.owned.push_back(std::make_unique<TableTexts>(path, text_column));
    else
      sources.owned.push_back(open_text_file(path));
    sources.all.push_back(sources.owned.back().get());
  }
  if (!is_known) sources.text_bytes = 0;
  return sources;
}

std::vector<std::string> file_words(const CommandOptions& given) {
  if (given.rest.empty())
    throw user_error(
        "[tokenizer train] expected files of text, got none; see shoehorn tokenizer train --help");
  return given.rest;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

BpeTrainerOptions trainer_options(const CommandOptions& given) {
  BpeTrainerOptions options;
  if (!given.is_given("vocab_size"))
    throw user_error(
        "[--vocab_size] expected a number of tokens, got nothing; 8000 is one for a small model");
  options.vocab_size = given.integer("vocab_size");
  options.min_frequency = given.integer_at_least("min_frequency", 0);
  options.special_tokens = split_at_commas(given.text("special_tokens"));
  options.pre_tokenizer = given.text("pre_tokenizer");
  options.nfc = given.text("normalizer") == "nfc";
  options.all_bytes = given.text("initial_alphabet") == "bytes";
  if (given.is_given("limit_alphabet")) {
    options.limit_alphabet = given.integer_at_least("limit_alphabet", 1);
    if (options.all_bytes)
      throw user_error("[--limit_alphabet] expected no value with --initial_alphabet bytes, got {}",
                       *options.limit_alphabet);
  }
  options.threads = use_given_threads(given);
  return options;
}

// A token that is the only special one has each role, as <|endoftext|> of GPT-2.
TokenizerConfig tokenizer_config(const CommandOptions& given,
                                 const std::vector<std::string>& special_tokens) {
  const auto token_of = [&](const char* flag) {
    const std::string& token = given.text(flag);
    if (token.empty()) return special_tokens.size() == 1 ? special_tokens[0] : "";
    if (std::ranges::find(special_tokens, token) == special_tokens.end())
      throw user_error("[--{}] expected one of the special tokens, got '{}'; add it to --special_tokens",
                       flag, token);
    return token;
  };
  TokenizerConfig config;
  config.bos_token = token_of("bos_token");
  config.eos_token = token_of("eos_token");
  config.unk_token = token_of("unk_token");
  if (!given.text("pad_token").empty()) config.pad_token = token_of("pad_token");
  if (given.is_given("model_max_length"))
    config.model_max_length = given.integer_at_least("model_max_length", 1);
  return config;
}

void check_directory(const fs::path& directory, bool overwrite) {
  if (directory.empty()) throw user_error("[--output_dir] expected a directory, got nothing");
  if (!overwrite && path_exists(directory)) {
    const std::vector<std::string> names = tokenizer_files_in(directory);
    if (!names.empty())
      throw user_error(
          "[{}] expected a directory without a tokenizer, got {}; choose another --output_dir, "
          "or replace it with --overwrite_output_dir",
          directory.string(), fmt::join(names, ", "));
  }
  ensure_writable_directory(directory);
}

// A bar for each stage, on a terminal.
class TrainingBars {
 public:
  TrainingBars(int64_t text_bytes, int64_t vocab_size) : totals_{text_bytes, vocab_size} {}

  void update(const BpeTrainingProgress& progress) {
    if (!bar_ || progress.stage != stage_) {
      const bool counts = progress.stage == BpeTrainingProgress::Stage::kCountingWords;
      stage_ = progress.stage;
      ProgressOptions options = detect_terminal(stderr, std::cerr);
      if (counts) options.unit = ProgressUnit::kBytes;
      bar_.emplace(counts ? "words" : "merges", 0, totals_[counts ? 0 : 1], std::move(options));
    }
    const bool counts = stage_ == BpeTrainingProgress::Stage::kCountingWords;
    const int64_t total = totals_[counts ? 0 : 1];
    const int64_t done = total > 0 ? std::min(progress.done, total) : progress.done;
    bar_->update(done, counts ? done : 0);
  }

 private:
  std::array<int64_t, 2> totals_;
  BpeTrainingProgress::Stage stage_{};
  std::optional<Progress> bar_;
};

std::string trained_as_text(const TrainedBpe& trained, const BpeTrainerOptions& options,
                            const fs::path& directory, size_t files) {
  std::string text = fmt::format(
      "Tokenizer of {} in {}: {} special, {}, {}\n"
      "Trained on {} of text from {}: {}, {} different\n",
      plural_count(std::ssize(trained.tokens), "token"), directory.string(), trained.special_tokens.size(),
      plural(trained.alphabet_size, "byte"), plural_count(std::ssize(trained.merges), "merge"),
      format_bytes(trained.text_bytes), plural(static_cast<int64_t>(files), "file"),
      plural_count(trained.words, "word"), format_count(trained.different_words));
  if (std::ssize(trained.tokens) < options.vocab_size)
    text += fmt::format("Fewer tokens than --vocab_size {}: no other pair occurs {}\n", options.vocab_size,
                        plural(std::max<int64_t>(options.min_frequency, 1), "time"));
  if (trained.invalid_utf8 > 0)
    text += fmt::format("{} ill-formed {} of UTF-8 read as U+FFFD\n", format_count(trained.invalid_utf8),
                        trained.invalid_utf8 == 1 ? "stretch" : "stretches");
  return text;
}

nlohmann::ordered_json trained_as_json(const TrainedBpe& trained, const fs::path& directory, double seconds) {
  return {{"output_dir", directory.string()},
          {"vocab_size", trained.tokens.size()},
          {"special_tokens", trained.special_tokens},
          {"alphabet_size", trained.alphabet_size},
          {"merges", trained.merges.size()},
          {"text_bytes", trained.text_bytes},
          {"words", trained.words},
          {"different_words", trained.different_words},
          {"invalid_utf8", trained.invalid_utf8},
          {"train_runtime", seconds}};
}

}  // namespace

CommandHelp help_of_tokenizer_train() {
  return {.name = "tokenizer train", .introduction = kTrainUsage, .own_rows = tokenizer_train_option_rows()};
}

int run_tokenizer_train(const std::vector<std::string>& words) {
  const CommandOptions given = parse_options(tokenizer_train_option_rows(), words, OtherWords::kWords);
  const std::vector<std::string> files = file_words(given);
  BpeTrainerOptions options = trainer_options(given);
  const TokenizerConfig config = tokenizer_config(given, options.special_tokens);
  const Sources sources = open_sources(files, given.text("text_column_names"));
  const fs::path directory = given.text("output_dir");
  check_directory(directory, given.flag("overwrite_output_dir"));
  const DirectoryLock lock(directory);

  const StopSignals signals;
  const auto start = std::chrono::steady_clock::now();
  const TrainedBpe trained = with_kept_text("no tokenizer is written", [&] {
    TrainingBars bars(sources.text_bytes, options.vocab_size);
    options.on_progress = [&bars](const BpeTrainingProgress& progress) {
      throw_if_stop_requested();
      bars.update(progress);
    };
    return train_byte_level_bpe(options, sources.all);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  save_tokenizer(directory, trained, config);
  if (given.flag("json"))
    fmt::print("{}", format_json(trained_as_json(trained, directory, seconds),
                                 {.sort_keys = false, .ensure_ascii = false}));
  else
    fmt::print("{}", trained_as_text(trained, options, directory, files.size()));
  return 0;
}

}  // namespace shoehorn
