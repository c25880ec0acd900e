#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/evaluate_model.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/text_task.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "session/batch_report.h"
#include "session/precision_report.h"
#include "train/auto_find_batch_size.h"
#include "train/results.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

std::string format_memory_agreement(const Metrics& metrics) {
  const auto row = [&](const char* what, const char* predicted, const char* measured) {
    const double p = metric_number(metrics.at(predicted));
    const double m = metric_number(metrics.at(measured));
    return fmt::format("  {:<16}{:>16}{:>16}{:>+15.0f} B{:>+9.2f}%\n", what,
                       format_bytes(static_cast<int64_t>(p)), format_bytes(static_cast<int64_t>(m)), m - p,
                       100 * (m - p) / p);
  };
  return fmt::format("Memory            {:>14}{:>16}{:>17}\n", "predicted", "measured", "difference") +
         row("arenas", "memory_arena_predicted_bytes", "memory_arena_measured_bytes") +
         row("whole process", "memory_process_predicted_bytes", "memory_process_measured_bytes");
}

// Beside checkpoints of an earlier run, a resume would take the highest number, whose ever it is.
void check_old_checkpoints(const TrainingArguments& args) {
  if (args.save_strategy == "no" || !args.resume_from_checkpoint.empty()) return;
  const std::vector<std::filesystem::path> old = list_checkpoints(args.output_dir);
  if (old.empty()) return;
  if (!args.overwrite_output_dir) {
    throw user_error(
        "[--output_dir {}] expected no checkpoints of an earlier run, got {}; --resume_from_checkpoint goes "
        "on from it, --overwrite_output_dir trains anew and removes it",
        args.output_dir, old.back().filename().string());
  }
  for (const std::filesystem::path& checkpoint : old) {
    std::error_code absent;
    if (!std::filesystem::equivalent(checkpoint, args.model_name_or_path, absent)) continue;
    throw user_error(
        "[--overwrite_output_dir] expected a model that is no checkpoint in output_dir, got {}, which would "
        "be removed; give another output_dir",
        checkpoint.string());
  }
}

TrainerOptions trainer_options(const TrainingArguments& args, const ModelSource& source, std::FILE* text) {
  TrainerOptions options;
  options.weights = source.directory;
  options.companions = source.companions;
  options.on_line = notice_printer(args);
  options.progress = detect_terminal(stderr, std::cerr);
  if (args.disable_tqdm.value_or(false)) options.progress.terminal = false;
  options.progress.on_log_line = [text](const std::string& line) {
    fmt::print(text, "{}\n", line);
    std::fflush(text);
  };
  return options;
}

}  // namespace

int run_train(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kTrain, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kTrain));
    return 0;
  }
  TrainingArguments args = parsed.arguments;
  if (!args.do_train.value_or(true)) {
    // A configuration file of an earlier run may say so unnoticed.
    if (const auto notice = notice_printer(args)) notice("do_train is false: nothing is trained");
    return evaluate_model(parsed);
  }
  std::FILE* const text = args.json ? stderr : stdout;
  ModelSource source = open_model(args, false, true);
  const DirectoryLock lock(args.output_dir);  // before anything is looked for, written or removed there
  check_old_checkpoints(args);
  ensure_writable_directory(args.output_dir);
  TextTask task = load_text_task(args, source, parsed.sets("max_seq_length"));
  fmt::print(text, "{}{}", task.summary, task.notices);
  const bool evaluates = task.validation.size() > 0 && args.do_eval.value_or(true);
  Trainer trainer(*source.model, args, std::move(task.train), std::move(task.validation),
                  trainer_options(args, source, text));
  fmt::print(text, "{}{}{}{}", format_found_batch_size(args, trainer.arguments()),
             format_batch(trainer.arguments(), trainer.steps()),
             format_precision(args, trainer.session().backend().machine()),
             format_forecast(trainer.forecast()));
  std::fflush(text);
  const TrainOutput output = trainer.train();
  trainer.save_model(args.output_dir);
  save_metrics(args.output_dir, "train", output.metrics);
  trainer.save_state();
  Metrics results = output.metrics;
  fmt::print(text, "{}", format_metrics("train", output.metrics));
  if (evaluates) {
    const Metrics metrics = trainer.evaluate();
    trainer.report_evaluation(metrics);
    save_metrics(args.output_dir, "eval", metrics);
    results.insert(metrics.begin(), metrics.end());
    fmt::print(text, "{}", format_metrics("eval", metrics));
  }
  fmt::print(text, "{}", format_memory_agreement(output.metrics));
  if (trainer.profile() != nullptr) fmt::print(text, "{}", format_profile(*trainer.profile()));
  fmt::print(text, "Saved in {}\n", args.output_dir);
  if (args.json) fmt::print("{}", format_json(to_json(results)));
  return 0;
}

}  // namespace shoehorn
