#include <malloc.h>

#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>
#include <iostream>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/text_task.h"
#include "io/file.h"
#include "train/argument_table.h"
#include "train/auto_find_batch_size.h"
#include "train/batch_report.h"
#include "train/precision_report.h"
#include "train/run_report.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

void print_memory_agreement(const Metrics& metrics) {
  const auto row = [&](const char* what, const char* predicted, const char* measured) {
    const double p = metric_number(metrics.at(predicted));
    const double m = metric_number(metrics.at(measured));
    fmt::print("  {:<16}{:>16}{:>16}{:>+15.0f} B{:>+9.2f}%\n", what, format_bytes(static_cast<int64_t>(p)),
               format_bytes(static_cast<int64_t>(m)), m - p, 100 * (m - p) / p);
  };
  fmt::print("Memory            {:>14}{:>16}{:>17}\n", "predicted", "measured", "difference");
  row("arenas", "memory_arena_predicted_bytes", "memory_arena_measured_bytes");
  row("whole process", "memory_process_predicted_bytes", "memory_process_measured_bytes");
}

}  // namespace

int run_train(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kTrain, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kTrain));
    return 0;
  }
  const TrainingArguments& args = parsed.arguments;
  validate_command(Command::kTrain, args);
  ModelSource source = open_model(args.model_name_or_path, false, true);
  ensure_writable_directory(args.output_dir);
  TextTask task = load_text_task(args, source);
  fmt::print("{} training and {} validation samples, {} classes, longest {} tokens\n",
             task.train.dataset.size(), task.validation.dataset.size(), task.train.labels.names.size(),
             task.train.dataset.max_length());
  if (task.train.invalid_utf8 > 0) {
    fmt::print("{} ill-formed stretches of UTF-8 are read as U+FFFD\n", task.train.invalid_utf8);
  }

  TrainerOptions options;
  options.weights = source.directory;
  options.companions = source.companions;
  if (args.log_level != "error" && args.log_level != "critical") {
    options.on_line = [](const std::string& line) { fmt::print("{}\n", line); };
  }
  options.progress = detect_terminal(stderr, std::cerr);
  if (args.disable_tqdm.value_or(false)) options.progress.terminal = false;
  options.progress.on_log_line = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  const bool has_validation = task.validation.dataset.size() > 0;
  task.tokenizer.reset();
  Trainer trainer(*source.model, args, std::move(task.train.dataset), std::move(task.validation.dataset),
                  std::move(options));
  fmt::print("{}", format_found_batch_size(args, trainer.arguments()));
  fmt::print("{}", format_batch(trainer.arguments(), trainer.steps()));
  fmt::print("{}", format_precision(args));
  fmt::print("{}", format_forecast(trainer.forecast()));
  std::fflush(stdout);
  const TrainOutput output = trainer.train();
  trainer.save_model(args.output_dir);
  save_metrics(args.output_dir, "train", output.metrics);
  trainer.save_state();
  fmt::print("{}", format_metrics("train", output.metrics));
  if (has_validation) {
    const Metrics metrics = trainer.evaluate();
    trainer.report_evaluation(metrics);
    save_metrics(args.output_dir, "eval", metrics);
    fmt::print("{}", format_metrics("eval", metrics));
  }
  print_memory_agreement(output.metrics);
  if (trainer.profile() != nullptr) fmt::print("{}", format_profile(*trainer.profile()));
  fmt::print("Saved in {}\n", args.output_dir);
  return 0;
}

}  // namespace shoehorn
