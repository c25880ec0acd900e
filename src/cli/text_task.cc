#include "cli/text_task.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "arguments/block_arguments.h"
#include "base/error.h"
#include "base/format.h"
#include "base/now_seconds.h"
#include "base/plural.h"
#include "cli/loading_progress.h"
#include "io/file.h"
#include "io/model_directory.h"
#include "model/task.h"
#include "ranks/agreement.h"
#include "ranks/awaited_work.h"
#include "ranks/open_ranks.h"
#include "train/data_description.h"
#include "train/language_data.h"
#include "train/text_data.h"

namespace shoehorn {

namespace {

LabelMap labels_of(const Model& model) {
  LabelMap labels = model.task().label_map();
  labels.takes_ids = true;
  return labels;
}

// A name from a file, for a terminal.
std::string shown_name(const std::string& name) {
  constexpr size_t kMaxBytes = 60;
  return printable(shorten(name, kMaxBytes), 2 * kMaxBytes);
}

bool are_default_names(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != fmt::format("LABEL_{}", i)) return false;
  }
  return true;
}

std::string shown_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) shown.push_back(shown_class(names[i]));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", …" : "");
}

std::string_view describe_problem(ProblemType problem) {
  switch (problem) {
    case ProblemType::kSingleLabel:
      return "one class a text";
    case ProblemType::kMultiLabel:
      return "any number of classes a text";
    case ProblemType::kRegression:
      return "numbers; write classes as whole numbers or as words";
  }
  return "unknown";
}

// A model of other labels is trained on from the head that it has.
std::string format_other_labels(const LabelMap& had, const LabelMap& has, const std::string& file,
                                bool gives_problem) {
  std::string notices;
  if (had.problem != has.problem && !gives_problem) {
    notices +=
        fmt::format("the model's {} becomes {}: the labels of {} are {}\n", problem_type_name(had.problem),
                    problem_type_name(has.problem), file, describe_problem(has.problem));
  }
  if (had.names == has.names || are_default_names(had.names)) return notices;
  if (has.problem == ProblemType::kRegression)
    return notices + fmt::format("the model's labels ({}) become values\n", shown_names(had.names));
  return notices + fmt::format("the model's labels ({}) become those of the training file ({})\n",
                               shown_names(had.names), shown_names(has.names));
}

// Of the samples to train on, which may be fewer than the file has, and how many have each class.
void check_can_be_learned(const LabelMap& labels, int64_t samples, const std::vector<int64_t>& counts,
                          const std::string& file) {
  if (labels.problem != ProblemType::kSingleLabel) return;
  const auto different = std::ranges::count_if(counts, [](int64_t count) { return count > 0; });
  if (different >= 2) return;
  throw user_error(
      "[{}] expected at least two different labels, got {} in {}; nothing can be learned from one{}", file,
      different, plural_count(samples, "sample"),
      labels.num_labels() > 1 ? "; if the file is sorted by its labels, shuffle its rows" : "");
}

// The names, with commas between them, if these can be told apart again.
std::string one_name_of(const std::vector<std::string>& columns) {
  const bool has_comma = std::ranges::any_of(
      columns, [](const std::string& name) { return name.find(',') != std::string::npos; });
  return has_comma ? std::string() : fmt::format("{}", fmt::join(columns, ","));
}

// The columns of a file where they have other names than in the training.
std::string format_other_columns(const LoadedDataset& train, const LoadedDataset& validation,
                                 const std::string& file) {
  if (validation.text_columns == train.text_columns && validation.label_columns == train.label_columns)
    return {};
  return fmt::format("{}: {}; the training file has {}\n", file,
                     describe_columns(validation.text_columns, validation.label_columns),
                     describe_columns(train.text_columns, train.label_columns));
}

std::string format_labels(const LabelMap& labels) {
  const int64_t count = labels.num_labels();
  if (labels.problem == ProblemType::kRegression)
    return fmt::format("{} value{} a text", count, count == 1 ? "" : "s");
  return fmt::format("{} class{}{}", count, count == 1 ? "" : "es",
                     labels.problem == ProblemType::kMultiLabel ? ", any number a text" : "");
}

// Says how many samples have the greatest length that is allowed; empty where none has.
std::string format_reaching(const Dataset& data, int64_t max_length) {
  if (data.max_length() < max_length) return "";
  const std::vector<int32_t> lengths = data.lengths();
  const auto reaching = std::count(lengths.begin(), lengths.end(), max_length);
  return fmt::format(" (max_seq_length, which {} reach{}: longer texts are cut)", format_count(reaching),
                     reaching == 1 ? "es" : "");
}

std::string format_samples(const TextTask& task, const LabelMap& labels, int64_t max_length) {
  return fmt::format("{} training and {} validation samples, {}, longest {}{}\n",
                     format_count(task.train.size()), format_count(task.validation.size()),
                     format_labels(labels), plural_count(task.train.max_length(), "token"),
                     format_reaching(task.train, max_length));
}

}  // namespace

std::string notices_of(const std::string& file, const LoadedDataset& data) {
  std::string notices;
  if (data.invalid_utf8 > 0) {
    notices +=
        fmt::format("{}: {} ill-formed stretches of UTF-8 are read as U+FFFD\n", file, data.invalid_utf8);
  }
  if (data.empty_texts > 0)
    notices += fmt::format("{}: {} {} kept\n", file, plural_count(data.empty_texts, "empty text"),
                           data.empty_texts == 1 ? "is" : "are");
  for (const std::string& notice : data.notices) notices += notice + "\n";
  if (!data.files.empty())
    notices += fmt::format("{}: tokenized samples are read from {}\n", file, data.files.string());
  if (data.labels_are_ids) {
    const std::vector<std::string>& names = data.labels.names;
    notices += fmt::format("{}: labels are numbers of the model's classes: 0 is {}{}{}\n", file,
                           shown_name(names[0]), names.size() > 1 ? ", 1 is " + shown_name(names[1]) : "",
                           names.size() > 2 ? ", …" : "");
  }
  return notices;
}

std::string fit_max_seq_length(TrainingArguments& args, const Model& model, const Tokenizer* tokenizer,
                               bool gives_length) {
  const int64_t positions = gives_length ? model.max_positions() : model.max_position_embeddings();
  const int64_t most = tokenizer == nullptr ? positions : std::min(positions, tokenizer->model_max_length());
  const int64_t length = args.max_seq_length;
  args.max_seq_length = std::min(length, most);
  if (length <= most || !gives_length) return {};
  return fmt::format(
      "max_seq_length: {} tokens in place of {}: {}\n", most, length,
      most == positions ? "the model has no more positions" : "the tokenizer's model_max_length");
}

Dataset load_evaluation_labels(const TrainingArguments& args, const ModelSource& source,
                               const ColumnOptions& trained, const Tokenizer& tokenizer,
                               std::string& notices) {
  const LabelMap labels = labels_of(*source.model);
  const DataFiles files = find_data_files("--validation_file", args.validation_file);
  LoadOptions options = load_options_of(args);
  options.columns.preferred_text_columns = trained.preferred_text_columns;
  options.columns.preferred_label_columns = trained.preferred_label_columns;
  options.max_samples = args.max_eval_samples.value_or(0);
  options.labels = &labels;
  const LoadingProgress progress(args);
  options.on_rows_read = progress.of_rows_read();
  options.on_progress = progress.of_rows();
  DatasetCacheOptions cache =
      cache_options_of(args, files, list_companions(source.tokenizer()), args.max_seq_length);
  cache.on_progress = progress.of_cache();
  const LoadedDataset data = load_dataset(files, tokenizer, args.max_seq_length, options, cache);
  const std::vector<int64_t> counts = class_counts(data.dataset, data.labels, progress.of_labels());
  notices +=
      describe_columns(data, data.dataset, counts, progress.of_labels()) + notices_of(files.name(), data);
  if (const std::string reaching = format_reaching(data.dataset, args.max_seq_length); !reaching.empty())
    notices += fmt::format("longest {}{}\n", plural_count(data.dataset.max_length(), "token"), reaching);
  return data.dataset;
}

namespace {

LanguageModelLimits limits_of(const Model& model) {
  return {.max_positions = model.max_positions(),
          .max_position_embeddings = model.max_position_embeddings(),
          .vocab_size = model.vocab_size()};
}

LanguageReader language_reader(const TrainingArguments& args, const ModelSource& source,
                               const Tokenizer& tokenizer) {
  const LoadingProgress progress(args);
  return {.tokenizer = tokenizer,
          .model = limits_of(*source.model),
          .tokenizer_files = list_companions(source.tokenizer()),
          .on_progress = progress.of_texts(),
          .on_cache_progress = progress.of_cache()};
}

void load_language_task(TrainingArguments& args, const ModelSource& source, const Tokenizer& tokenizer,
                        bool gives_length, TextTask& task) {
  const int64_t given_length = args.max_seq_length;
  LanguageData data = load_language_data(args, language_reader(args, source, tokenizer));
  args.max_seq_length = *args.block_size;
  task.train = std::move(data.train.dataset);
  task.validation = std::move(data.validation.dataset);
  task.summary = std::move(data.summary);
  task.notices = std::move(data.notices);
  // A file of arguments has the default, or what an earlier run had as its block size.
  if (gives_length && given_length != TrainingArguments().max_seq_length &&
      given_length != args.max_seq_length) {
    task.notices += fmt::format(
        "max_seq_length: {} is not used: a language model's samples are blocks of --block_size {} tokens\n",
        given_length, *args.block_size);
  }
}

constexpr int64_t kAllPercents = 100;

// The beginning of the training file is to evaluate on.
void split(const TrainingArguments& args, const std::string& file, const Dataset& samples, TextTask& task) {
  const int64_t evaluated = samples_to_evaluate_on(args, samples.size(), 0);
  const auto end_of = [](int64_t begin, int64_t end, std::optional<int64_t> most) {
    return most ? std::min(end, begin + *most) : end;
  };
  task.validation = part_of(samples, 0, end_of(0, evaluated, args.max_eval_samples));
  task.train = part_of(samples, evaluated, end_of(evaluated, samples.size(), args.max_train_samples));
  if (task.train.size() == 0 || task.validation.size() == 0) {
    throw user_error(
        "[validation_split_percentage] expected samples to train on and to evaluate on, got {} and {} of the {} in {}; "
        "give another percentage, or a --validation_file",
        samples.size() - evaluated, evaluated, samples.size(), file);
  }
}

void load_classification_task(TrainingArguments& args, const ModelSource& source, const Tokenizer& tokenizer,
                              bool gives_length, TextTask& task) {
  task.notices += fit_max_seq_length(args, *source.model, &tokenizer, gives_length);
  const LabelMap model_labels = source.model->task().label_map();
  const DataFiles files = find_data_files("--train_file", args.train_file);
  const bool is_split = samples_to_evaluate_on(args, kAllPercents, 0) > 0;
  LoadOptions options = load_options_of(args);
  if (!is_split) options.max_samples = args.max_train_samples.value_or(0);
  options.find = {.problem = problem_of(args), .model = &model_labels};
  const LoadingProgress progress(args);
  options.on_rows_read = progress.of_rows_read();
  options.on_progress = progress.of_rows();
  DatasetCacheOptions cache =
      cache_options_of(args, files, list_companions(source.tokenizer()), args.max_seq_length);
  cache.on_progress = progress.of_cache();
  LoadedDataset train = load_dataset(files, tokenizer, args.max_seq_length, options, cache);
  if (is_split)
    split(args, files.name(), train.dataset, task);
  else
    task.train = train.dataset;
  const std::vector<int64_t> counts = class_counts(task.train, train.labels, progress.of_labels());
  check_can_be_learned(train.labels, task.train.size(), counts, files.name());
  source.model->set_labels(train.labels);
  task.notices += notices_of(files.name(), train) +
                  format_other_labels(model_labels, train.labels, files.name(), !args.problem_type.empty());
  const bool evaluates = args.do_eval.value_or(true) || args.eval_on_start;
  if (is_split) {
    task.notices += describe_uneven_split(train.labels, counts,
                                          class_counts(task.validation, train.labels, progress.of_labels()));
    if (!evaluates) task.validation = {};
  }
  task.text_columns = train.text_columns;
  task.label_columns = one_name_of(train.label_columns);
  if (!args.validation_file.empty() && evaluates) {
    const DataFiles validation_files = find_data_files("--validation_file", args.validation_file);
    LoadOptions validation = load_options_of(args);
    validation.max_samples = args.max_eval_samples.value_or(0);
    validation.labels = &train.labels;
    validation.columns.preferred_text_columns = train.text_columns;
    validation.columns.preferred_label_columns = task.label_columns;
    validation.on_rows_read = progress.of_rows_read();
    validation.on_progress = progress.of_rows();
    LoadedDataset loaded = load_dataset(validation_files, tokenizer, args.max_seq_length, validation, cache);
    const std::string others = format_other_columns(train, loaded, validation_files.name());
    if (!others.empty()) {
      task.text_columns.clear();
      task.label_columns.clear();
    }
    task.notices += others + notices_of(validation_files.name(), loaded);
    task.validation = std::move(loaded.dataset);
  }
  task.summary = format_samples(task, train.labels, args.max_seq_length) +
                 describe_columns(train, task.train, counts, progress.of_labels());
}

TextTask load_own_task(TrainingArguments& args, ModelSource& source, bool gives_length) {
  TextTask task;
  const bool is_language = is_language_model(*source.model);
  args.task = is_language ? kCausalLanguageModel : kTextClassification;
  if (args.train_file.empty()) {
    if (!is_language) {
      task.notices += fit_max_seq_length(args, *source.model, nullptr, gives_length);
      return task;
    }
    if (gives_length && !args.block_size) args.block_size = args.max_seq_length;
    task.notices += fit_block_size(args, limits_of(*source.model), nullptr);
    args.max_seq_length = *args.block_size;
    return task;
  }
  if (source.tokenizer().empty()) {
    throw user_error(
        "[--train_file] expected a tokenizer with it, got {}, which has none; give --tokenizer_name, or leave "
        "--train_file out to plan for the longest samples",
        args.model_name_or_path.empty()
            ? "a new model"
            : fmt::format("--model_name_or_path {}, a shape", args.model_name_or_path));
  }
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  if (is_language)
    load_language_task(args, source, *tokenizer, gives_length, task);
  else
    load_classification_task(args, source, *tokenizer, gives_length, task);
  return task;
}

}  // namespace

std::string hint_at_dataset_cache(int32_t ranks, double loading_seconds) {
  constexpr double kLong = 10;
  if (ranks == 1 || loading_seconds < kLong) return {};
  return fmt::format(
      "dataset_cache: each of {} ranks has tokenized all texts, in {}, and holds their tokens; with --dataset_cache DIR the "
      "first does it for all\n",
      ranks, format_seconds(loading_seconds));
}

namespace {

bool is_first_of_host(Communicator& ranks) {
  int64_t first = 0;
  for (const HostRanks& host : hosts_of_ranks(ranks, host_name())) {
    if (first == ranks.rank()) return true;
    first += host.ranks;
  }
  return false;
}

}  // namespace

std::string load_on_ranks(TrainingArguments& args, Communicator* ranks, const std::function<void()>& load) {
  if (ranks == nullptr) {
    load();
    return {};
  }
  // Of hosts that share no files one may have a cache and another none.
  const std::vector<bool> have_cache = gather_values(*ranks, !dataset_cache_of(args).empty());
  if (std::ranges::none_of(have_cache, [](bool one) { return one; })) {
    const double begin = now_seconds();
    load();
    return hint_at_dataset_cache(ranks->size(), now_seconds() - begin);
  }
  // Hosts that share no files have a cache each, which the first rank of each makes.
  const bool is_first = is_first_of_host(*ranks);
  await_work(*ranks, ranks->is_main(), load);
  const bool overwrites = std::exchange(args.overwrite_cache, false);
  await_work(*ranks, is_first && !ranks->is_main(), load);
  await_work(*ranks, !is_first, load);
  args.overwrite_cache = overwrites;
  return {};
}

TextTask load_text_task(TrainingArguments& args, ModelSource& source, bool gives_length,
                        Communicator* ranks) {
  TextTask task;
  const std::string hint =
      load_on_ranks(args, ranks, [&] { task = load_own_task(args, source, gives_length); });
  task.notices += hint;
  return task;
}

Dataset load_evaluation_texts(TrainingArguments& args, const ModelSource& source,
                              const ColumnOptions& trained, const Tokenizer& tokenizer, std::string& summary,
                              std::string& notices) {
  args.task = kCausalLanguageModel;
  LanguageReader reader = language_reader(args, source, tokenizer);
  if (!trained.preferred_text_columns.empty())
    reader.preferred_text_column = trained.preferred_text_columns.front();
  notices += fit_block_size(args, reader.model, &tokenizer);
  args.max_seq_length = *args.block_size;
  return load_evaluation_blocks(args, reader, find_data_files("--validation_file", args.validation_file),
                                summary, notices)
      .dataset;
}

}  // namespace shoehorn
