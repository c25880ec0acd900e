#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "arguments/argument_table.h"
#include "arguments/block_arguments.h"
#include "base/error.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/evaluate_model.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/rank_of_process.h"
#include "cli/score_text.h"
#include "cli/text_task.h"
#include "cli/trained_settings.h"
#include "exec/backend/thread_count.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "train/results.h"
#include "train/start_checks.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

// The losses that a training with weights reported are not those of an evaluation without.
std::string notice_of_training_weights(const ParsedArguments& parsed, const TrainedSettings& trained) {
  if (parsed.sets("class_weights") || trained.class_weights.empty()) return "";
  return fmt::format(
      "{}: training weighed the classes (class_weights {}), this loss does not; --class_weights gives weights\n",
      trained.file.string(), trained.class_weights);
}

// Before the work rather than behind it; a mistake leaves no new directory.
void check_destination(const std::string& output_dir) {
  DirectoryLock::require_free(output_dir);
  require_writable_directory(output_dir);
  if (!path_exists(output_dir)) return;
  check_files_can_be_written(output_dir, {"eval_results.json"});
  check_combined_results(output_dir);
}

}  // namespace

int evaluate_model(const ParsedArguments& parsed, TrainingArguments args,
                   const std::shared_ptr<Communicator>& ranks) {
  const StopSignals signals = stop_signals_of_process();
  const bool is_main = is_main_rank(ranks);
  print_text(args, notice_of_first_model(parsed, "evaluates"));
  const ModelSource source = open_trained_model(args);
  if (is_main) check_destination(args.output_dir);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  std::string summary;
  std::string notices;
  ScoreDetails details;
  const Metrics metrics = with_kept_text("no results are written", [&] {
    Dataset data;
    const TrainedSettings trained = read_trained_settings(source);
    const std::string hint = load_on_ranks(args, ranks.get(), [&] {
      if (is_language_model(*source.model)) {
        notices = take_trained_block(args, trained);
        data = load_evaluation_texts(args, source, trained.columns, *tokenizer, summary, notices);
      } else {
        args.task = kTextClassification;
        notices = take_trained_length(args, trained, parsed.sets("max_seq_length"));
        notices += fit_max_seq_length(args, *source.model, tokenizer.get(), parsed.sets("max_seq_length"));
        data = load_evaluation_labels(args, source, trained.columns, *tokenizer, notices);
        notices += notice_of_training_weights(parsed, trained);
      }
    });
    notices += hint;
    print_text(args, fmt::format("{}{}{}\n", summary, notices, describe(thread_count())));
    TrainerOptions options;
    options.weights = source.directory;
    options.adapter = source.adapter;
    options.on_line = notice_printer(args);
    options.progress = progress_options(args);
    options.ranks = ranks;
    const int64_t samples = data.size();
    Trainer trainer(*source.model, args, {}, std::move(data), std::move(options));
    print_text(args, shown_class_weights(trainer));
    Metrics measured = trainer.evaluate();
    add_script_metrics(measured, "eval", samples);
    details = trainer.evaluation_details();
    return measured;
  });
  if (ranks != nullptr) ranks->finish();
  if (!is_main) return 0;
  nlohmann::json results = to_json(metrics);
  results.update(to_json(details, "eval"));
  if (args.json) {
    fmt::print("{}", format_json(results));
  } else {
    fmt::print("{}{}", format_metrics("eval", metrics), format_details(details, score_text_options()));
  }
  ensure_writable_directory(args.output_dir);
  save_results(args.output_dir, "eval", results);
  print_text(args, fmt::format("Results in {}\n",
                               (std::filesystem::path(args.output_dir) / "eval_results.json").string()));
  return 0;
}

CommandHelp help_of_eval() {
  return {.name = "eval",
          .introduction =
              "Loss and metrics of a model on a labelled file.\n\n"
              "  shoehorn eval --model_name_or_path out --validation_file dev.csv\n",
          .table = Command::kEval};
}

int run_eval(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kEval, words, launched_ranks());
  TrainingArguments args = parsed.arguments;
  const std::shared_ptr<Communicator> ranks = open_ranks_of(args);
  use_processors(args, ranks);
  return evaluate_model(parsed, std::move(args), ranks);
}

}  // namespace shoehorn
