#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/rank_of_process.h"
#include "cli/score_text.h"
#include "cli/text_task.h"
#include "cli/trained_settings.h"
#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "io/json_file.h"
#include "predict/predict_file.h"
#include "train/data_description.h"
#include "train/results.h"
#include "train/start_checks.h"

namespace shoehorn {

namespace {

// Where a run writes: predictions, and into output_dir its results unless only a file of predictions is named.
struct Destination {
  std::filesystem::path predictions;
  bool has_results = false;

  bool is_standard_output() const { return shoehorn::is_standard_output(predictions); }
};

Destination destination_of(const ParsedArguments& parsed) {
  const TrainingArguments& args = parsed.arguments;
  if (args.output_file.empty()) {
    const std::string extension = args.output_file_format.empty() ? "jsonl" : args.output_file_format;
    return {std::filesystem::path(args.output_dir) / ("predictions." + extension), true};
  }
  return {args.output_file, parsed.sets("output_dir")};
}

// What can be known before the work.
void check_destination(const TrainingArguments& args, const Destination& destination) {
  if (args.json && destination.is_standard_output()) {
    throw user_error(
        "[--json] expected a file for the predictions, got --output_file -; both would be on standard output");
  }
  std::error_code error;
  if (std::filesystem::equivalent(args.test_file, destination.predictions, error)) {
    throw user_error(
        "[--output_file] expected another file than --test_file, got {}; its texts would be lost",
        destination.predictions.string());
  }
  if (!destination.is_standard_output()) ensure_writable_directory(parent_directory(destination.predictions));
  if (destination.has_results) require_writable_directory(args.output_dir);
  if (destination.has_results && path_exists(args.output_dir))
    check_files_can_be_written(args.output_dir, {"predict_results.json"});
}

void check_is_read_by_ranks(const TrainingArguments& args) {
  if (args.test_file != "-") return;
  throw user_error(
      "[--test_file -] expected a file that each rank reads, got standard input, which one of them has; write it to a file, "
      "or predict in one process");
}

std::string kept_text(const Destination& destination) {
  if (destination.is_standard_output()) return "the predictions so far are on standard output";
  return fmt::format("{} is not written", destination.predictions.string());
}

// What notices_of() reads.
LoadedDataset loaded_as(const PredictedFile& predicted, const Model& model) {
  LoadedDataset loaded;
  loaded.labels = model.task().label_map();
  loaded.invalid_utf8 = predicted.invalid_utf8;
  loaded.labels_are_ids = predicted.labels_are_ids;
  return loaded;
}

// For people: which columns were read, and whether texts were cut.
std::string describe_read(const PredictedFile& predicted, const TrainingArguments& args) {
  std::string text = describe_columns(predicted.text_columns, predicted.label_columns);
  if (predicted.longest_rows > 0) {
    text += fmt::format("\n{} of {} reach{} max_seq_length ({} tokens): longer texts are cut",
                        predicted.longest_rows, plural(predicted.rows, "text"),
                        predicted.longest_rows == 1 ? "es" : "", args.max_seq_length);
  }
  if (predicted.nonfinite_rows > 0) {
    text += fmt::format("\n{} of {} had outputs that are no finite numbers: the model's weights may be lost",
                        predicted.nonfinite_rows, plural(predicted.rows, "text"));
  }
  return text + "\n";
}

std::string shown_file(const std::string& name) {
  return name == "-" ? "standard input" : name;
}

// For people: what the labels say of the predictions, without the bytes.
std::string format_scores(const Metrics& metrics) {
  Metrics scores = metrics;
  std::erase_if(scores, [](const auto& metric) { return metric.first.starts_with("predict_memory_"); });
  return format_metrics("predict", scores);
}

}  // namespace

CommandHelp help_of_predict() {
  return {.name = "predict",
          .introduction =
              "Label and scores for each text of a file.\n\n"
              "  shoehorn predict --model_name_or_path out --test_file new.csv --output_file labels.jsonl\n",
          .table = Command::kPredict};
}

int run_predict(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kPredict, words, launched_ranks());
  TrainingArguments args = parsed.arguments;
  const std::shared_ptr<Communicator> ranks = open_ranks_of(args);
  use_processors(args, ranks);
  const StopSignals signals = stop_signals_of_process();
  const bool is_main = is_main_rank(ranks);
  const Destination destination = destination_of(parsed);
  std::FILE* const people = args.json || destination.is_standard_output() ? stderr : stdout;
  print_text(args, notice_of_first_model(parsed, "predicts with"), people);
  const ModelSource source = open_trained_model(args);
  if (is_language_model(*source.model)) {
    throw user_error(
        "[--model_name_or_path {}] expected a model that classifies texts, got a language model; "
        "shoehorn generate goes on with a text, shoehorn eval gives its loss",
        args.model_name_or_path);
  }
  const PredictionFormat format = prediction_format_of(destination.predictions, args.output_file_format);
  if (ranks != nullptr) check_is_read_by_ranks(args);
  if (is_main) check_destination(args, destination);
  std::optional<PredictionOutput> output;
  if (is_main) output.emplace(destination.predictions);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  const TrainedSettings trained = read_trained_settings(source);
  print_text(args, take_trained_length(args, trained, parsed.sets("max_seq_length")), people);
  print_text(args, fit_max_seq_length(args, *source.model, tokenizer.get(), parsed.sets("max_seq_length")),
             people);
  // Of a file that is read as it is predicted the number of rows is not known.
  Progress bar("predict", 0, 0, beside_main_work(progress_options(args), ProgressUnit::kTexts));
  const PredictedFile predicted = with_kept_text(kept_text(destination), [&] {
    return predict_file(
        *source.model, args, *tokenizer, format, output ? &*output : nullptr,
        {.predictor = {.weights = source.directory,
                       .adapter = source.adapter,
                       .on_line = notice_printer(args, people),
                       .ranks = ranks},
         .trained_columns = trained.columns,
         .on_progress = [&](const PredictFileProgress& done) { bar.update(done.rows, done.rows); }});
  });
  bar.finish();
  if (ranks != nullptr) ranks->finish();
  if (!is_main) return 0;
  output->finish();
  print_text(args,
             fmt::format("{}{}{}\n", describe_read(predicted, args),
                         notices_of(shown_file(args.test_file), loaded_as(predicted, *source.model)),
                         describe(thread_count())),
             people);
  nlohmann::json results = to_json(predicted.metrics);
  results.update(to_json(predicted.details, "predict"));
  if (args.json) {
    nlohmann::json result = results;
    result["output_file"] = destination.predictions.string();
    fmt::print("{}", format_json(result));
  } else {
    if (predicted.is_scored) {
      print_text(args,
                 format_scores(predicted.metrics) + format_details(predicted.details, score_text_options()),
                 people);
    }
    print_text(
        args,
        fmt::format("{} in {}\n", plural(predicted.rows, "prediction"),
                    destination.is_standard_output() ? "standard output" : destination.predictions.string()),
        people);
  }
  if (destination.has_results) {
    ensure_writable_directory(args.output_dir);
    save_results(args.output_dir, "predict", results, false);  // a run may be training there
  }
  return 0;
}

}  // namespace shoehorn
