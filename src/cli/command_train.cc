#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analysis/rank_traffic.h"
#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "arguments/idle_settings.h"
#include "arguments/shell_word.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/format.h"
#include "base/stop_request.h"
#include "base/user_error_kinds.h"
#include "cli/arguments_file.h"
#include "cli/commands.h"
#include "cli/evaluate_model.h"
#include "cli/find_fit.h"
#include "cli/fit_on_ranks.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/output_lines.h"
#include "cli/rank_of_process.h"
#include "cli/resume_command.h"
#include "cli/score_text.h"
#include "cli/step_timer.h"
#include "cli/text_task.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "ranks/launched_rank.h"
#include "ranks/rank_launcher.h"
#include "ranks/shared_processors.h"
#include "report/plot.h"
#include "session/batch_report.h"
#include "session/precision_report.h"
#include "state/checkpoint_record.h"
#include "train/auto_find_batch_size.h"
#include "train/results.h"
#include "train/start_checks.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

constexpr const char* kNotBegun = "training had not begun, and nothing is saved";

std::string format_memory_agreement(const Metrics& metrics) {
  const auto row = [&](const char* what, const char* predicted, const char* measured) {
    const double p = metric_number(metrics.at(predicted));
    const double m = metric_number(metrics.at(measured));
    return fmt::format("  {:<16}{:>16}{:>16}{:>17}{:>+9.2f}%\n", what, format_bytes(static_cast<int64_t>(p)),
                       format_bytes(static_cast<int64_t>(m)), format_difference(m - p, Unit::kBytes),
                       100 * (m - p) / p);
  };
  return fmt::format("Memory            {:>14}{:>16}{:>17}\n", "predicted", "measured", "difference") +
         row("arenas", "memory_arena_predicted_bytes", "memory_arena_measured_bytes") +
         row("whole process", "memory_process_predicted_bytes", "memory_process_measured_bytes");
}

// Beside checkpoints of an earlier run, a resume would take the highest number, whose ever it is.
void check_old_checkpoints(const TrainingArguments& args) {
  if (!args.resume_from_checkpoint.empty() || (args.save_strategy == "no" && !args.overwrite_output_dir))
    return;
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

// A line below the forecast of a rank on one of several hosts.
std::string format_link_bytes(const Session& session) {
  const StepTraffic traffic = step_traffic(session);
  return traffic.has_several_hosts ? fmt::format("  {:<30}{}\n", "sent by link", link_bytes_text(traffic))
                                   : "";
}

TrainerOptions trainer_options(const TrainingArguments& args, const ModelSource& source,
                               std::shared_ptr<Communicator> ranks) {
  TrainerOptions options;
  options.weights = source.directory;
  options.adapter = source.adapter;
  options.companions = source.companions;
  options.on_line = notice_printer(args);
  options.progress = progress_options(args);
  options.saves_model = true;
  options.ranks = std::move(ranks);
  return options;
}

// How the run was started: what the program was given, and what started it as ranks, if not `launch` (words_to_start_again).
struct StartWords {
  std::vector<std::string> starter;
  std::vector<std::string> given;
};

std::string command_to_go_on(const StartWords& words, int64_t ranks) {
  std::vector<std::string> command;
  if (ranks > 1 && words.starter.empty()) command = {"launch", "--nproc_per_node", std::to_string(ranks)};
  command.emplace_back("train");
  command.insert(command.end(), words.given.begin(), words.given.end());
  const std::string starter = words.starter.empty() ? "" : shell_words(words.starter) + " ";
  return starter + resume_command(program_invocation_name, command);
}

// What a stop left, and how to go on. `is_trained`: no step was left, and the model is saved.
std::string format_stop(const TrainOutput& output, const TrainingArguments& args, bool is_trained,
                        const StartWords& words) {
  std::string text =
      fmt::format("Stopped by {} after step {}", stop_signal_name(output.stop_signal), output.global_step);
  if (is_trained)
    return fmt::format("{}, the last one; the model is in {}, but it is not evaluated\n", text,
                       args.output_dir);
  if (output.checkpoint.empty()) {
    const char* why = output.global_step == 0                      ? "no step was finished"
                      : !args.enable_jit_checkpoint.value_or(true) ? "enable_jit_checkpoint is false"
                                                                   : "save_strategy is no";
    return fmt::format("{}: no checkpoint is saved, because {}\n", text, why);
  }
  text += fmt::format("; saved in {}\n", output.checkpoint.string());
  if (args.save_only_model) return text + "It cannot be resumed, because save_only_model is true.\n";
  return text + fmt::format("To go on from there:\n  {}\n", command_to_go_on(words, args.world_size));
}

// The results so far of a run that was stopped; its exit code.
int end_stopped(Trainer& trainer, const TrainOutput& output, const StartWords& words) {
  leave_closed_output();
  const TrainingArguments& args = trainer.arguments();
  // Only an evaluation was given up: without a checkpoint, what was trained is in no file yet.
  const bool is_trained =
      output.checkpoint.empty() && output.global_step > 0 && output.global_step >= trainer.state().max_steps;
  if (is_trained) trainer.save_model(args.output_dir);
  save_metrics(args.output_dir, "train", output.metrics);
  trainer.save_state();
  print_text(args, format_metrics("train", output.metrics));
  fmt::print(args.json ? stderr : stdout, "{}",
             format_stop(output, args, is_trained, words));  // a stop is no notice
  if (args.json) fmt::print("{}", format_json(to_json(output.metrics)));
  return exit_code_of_stop(output.stop_signal);
}

// The evaluation of a model that is trained and saved.
Metrics evaluate_trained(Trainer& trainer) {
  const std::string kept = fmt::format(
      "the training is done and its model is in {0}, but it is not evaluated; shoehorn eval --model_name_or_path {0} "
      "does that",
      trainer.arguments().output_dir);
  return with_kept_text(kept, [&] { return trainer.evaluate(); });
}

// A mistake leaves no new directory behind: what is still empty at the end goes.
class NewDirectory {
 public:
  explicit NewDirectory(const std::filesystem::path& path) : path_(path_exists(path) ? "" : path) {}
  ~NewDirectory() {
    std::error_code is_used;
    if (!path_.empty()) std::filesystem::remove(path_, is_used);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

 private:
  std::filesystem::path path_;
};

// Files that the end of a run writes besides the model's.
void check_result_files(const TrainingArguments& args) {
  ensure_writable_directory(args.output_dir);
  check_files_can_be_written(args.output_dir, {"config.json", "model.safetensors", "trainer_state.json",
                                               kArgumentsFile, "train_results.json", "eval_results.json"});
  check_combined_results(args.output_dir);
}

// Eval and predict read the same columns, from the arguments that the run writes (cli/trained_settings.h).
void keep_columns(const TextTask& task, TrainingArguments& args) {
  if (args.text_column_names.empty()) args.text_column_names = task.text_columns;
  if (args.label_column_name.empty()) args.label_column_name = task.label_columns;
}

// Finds the fastest settings that fit and becomes the process that trains with them, which holds nothing of the search.
int run_fitted(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(fit_option_rows(), words, OtherWords::kTableFlags);
  FoundFit found;
  // Before the search rather than behind it.
  DirectoryLock::require_free(parse_arguments(Command::kTrain, options.rest).arguments.output_dir);
  const StopSignals signals;
  with_kept_text(kNotBegun, [&] { find_fit(options, kVerifiedToTrain, found); });
  if (!found.report.chosen) throw DoesNotFit(format_no_fit(found.report));
  if (!found.is_json) fmt::print("{}\n", format_fit(found.report));
  std::fflush(stdout);
  std::vector<std::string> command = {own_program().string(), "train"};
  const std::vector<std::string> flags = chosen_flags(found.report);
  command.insert(command.end(), flags.begin(), flags.end());
  if (found.is_json) command.emplace_back("--json");
  throw_if_stop_requested();  // the process that trains would not know
  become_process(command);
}

}  // namespace

CommandHelp help_of_train() {
  return {
      .name = "train",
      .introduction =
          "Fine-tunes a model of a Hugging Face directory on texts of yours; the Trainer's flags.\n\n"
          "  shoehorn train --model_name_or_path DIR --train_file train.csv --validation_file dev.csv --output_dir "
          "out\n",
      .own_rows =
          {{.name = "fit",
            .kind = ArgumentKind::kFlag,
            .standard = false,
            .help =
                "finds the fastest settings that fit the memory and trains with them; takes fit's flags too"}},
      .table = Command::kTrain};
}

int run_train(const std::vector<std::string>& given_words) {
  // Before ranks are opened: MPI sets variables of its own.
  StartWords start = {words_to_start_again(), given_words};
  std::vector<std::string>& words = start.given;
  if (std::erase(words, "--fit") > 0) {
    if (launched_ranks() == 1) return run_fitted(words);
    words = with_kept_text(kNotBegun, [&] { return find_fit_on_ranks(words); });
  }
  const ParsedArguments parsed = parse_arguments(Command::kTrain, words, launched_ranks());
  TrainingArguments args = parsed.arguments;
  const std::shared_ptr<Communicator> ranks = open_ranks_of(args);
  const bool is_main = is_main_rank(ranks);
  TrainingArguments given = parsed.arguments;
  given.world_size = args.world_size;
  use_processors(args, ranks);
  show_notices(parsed, args);
  if (!args.do_train.value_or(true)) {
    // A configuration file of an earlier run may say so unnoticed.
    if (const auto notice = notice_printer(args)) notice("do_train is false: nothing is trained");
    return evaluate_model(parsed, std::move(args), ranks);
  }
  const StopSignals signals = stop_signals_of_process();
  ModelSource source = open_model_to_train(parsed, args);
  if (!is_language_model(*source.model)) check_has_evaluation_set(args);
  std::optional<NewDirectory> directory;
  std::optional<DirectoryLock> lock;
  if (is_main) {
    directory.emplace(args.output_dir);
    lock.emplace(args.output_dir);  // before anything is looked for, written or removed there
    check_old_checkpoints(args);
  }
  check_data_files(args);
  if (is_main) check_result_files(args);
  TextTask task = with_kept_text(
      kNotBegun, [&] { return load_text_task(args, source, parsed.sets("max_seq_length"), ranks.get()); });
  print_text(args, task.summary + task.notices);
  for (TrainingArguments* written : {&args, &given}) keep_columns(task, *written);
  const int64_t train_samples = task.train.size(), eval_samples = task.validation.size();
  const bool evaluates = task.validation.size() > 0 && args.do_eval.value_or(true);
  for (const std::string& notice : notices_of_idle_settings(parsed, task.validation.size() > 0, args.task))
    print_text(args, notice + "\n");
  TrainerOptions options = trainer_options(args, source, ranks);
  if (is_main) options.step_seconds = rank_step_seconds(args, task.train);
  const std::unique_ptr<Trainer> planned = with_kept_text(kNotBegun, [&] {
    return std::make_unique<Trainer>(*source.model, args, std::move(task.train), std::move(task.validation),
                                     std::move(options));
  });
  Trainer& trainer = *planned;
  if (is_main) trainer.add_callback(std::make_shared<ArgumentsFile>(given));
  print_text(args, fmt::format("{}{}{}{}\n{}{}{}", format_found_batch_size(args, trainer.arguments()),
                               format_batch(trainer.arguments(), trainer.steps()),
                               shown_class_weights(trainer), describe(thread_count()),
                               format_precision(args, trainer.session().backend().machine()),
                               format_forecast(trainer.forecast()), format_link_bytes(trainer.session())));
  const TrainOutput output = trainer.train();
  if (output.stop_signal != 0) {
    if (ranks != nullptr) ranks->finish();
    return is_main ? end_stopped(trainer, output, start) : exit_code_of_stop(output.stop_signal);
  }
  trainer.save_model(args.output_dir);
  if (!is_main) {
    if (evaluates) evaluate_trained(trainer);
    ranks->finish();
    return 0;
  }
  Metrics trained = output.metrics;
  add_script_metrics(trained, "train", train_samples);
  if (trainer.profile() != nullptr) add_profile_metrics(trained, *trainer.profile());
  save_metrics(args.output_dir, "train", trained);
  trainer.save_state();
  nlohmann::json results = to_json(trained);
  print_text(args, format_metrics("train", trained));
  if (evaluates) {
    Metrics metrics = evaluate_trained(trainer);
    trainer.report_evaluation(metrics);
    add_script_metrics(metrics, "eval", eval_samples);
    nlohmann::json evaluation = to_json(metrics);
    evaluation.update(to_json(trainer.evaluation_details(), "eval"));
    save_results(args.output_dir, "eval", evaluation);
    results.update(evaluation);
    print_text(args, format_metrics("eval", metrics) +
                         format_details(trainer.evaluation_details(), score_text_options()));
  }
  print_text(args, format_memory_agreement(output.metrics));
  if (trainer.profile() != nullptr) print_text(args, format_profile(*trainer.profile()));
  print_text(args, fmt::format("Saved in {}\n", args.output_dir));
  if (args.json) fmt::print("{}", format_json(results));
  if (ranks != nullptr) ranks->finish();
  return 0;
}

}  // namespace shoehorn
