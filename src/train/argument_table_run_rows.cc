// Rows of the table: data loading, saving, evaluation, logging and debugging.
#include "train/argument_table.h"

namespace shoehorn::argument_rows {

using Args = TrainingArguments;
using enum ArgumentGroup;
using enum ArgumentKind;
using enum ArgumentStatus;

namespace {

constexpr std::string_view kNoTracker =
    "log lines, trainer_state.json and the result files are written instead";

std::vector<ArgumentSpec> loading_and_saving() {
  return {
      {.name = "dataloader_num_workers",
       .group = kDataLoading,
       .field = &Args::dataloader_num_workers,
       .help = "above 0: a thread prepares the next effective batch"},
      {.name = "dataloader_pin_memory",
       .group = kDataLoading,
       .field = &Args::dataloader_pin_memory,
       .help = "accepted; without a GPU there is nothing to pin"},
      {.name = "dataloader_prefetch_factor",
       .group = kDataLoading,
       .field = &Args::dataloader_prefetch_factor,
       .help = "accepted as 2: one batch is used while the next is prepared"},
      {.name = "dataloader_persistent_workers",
       .group = kDataLoading,
       .kind = kFlag,
       .standard = false,
       .help = "accepted; workers live as long as the run"},
      {.name = "dataloader_drop_last",
       .group = kDataLoading,
       .field = &Args::dataloader_drop_last,
       .help = "drop an epoch's short last batch"},
      {.name = "train_sampling_strategy",
       .group = kDataLoading,
       .field = &Args::train_sampling_strategy,
       .help = "order of the training samples",
       .choices = {{"random"}, {"sequential"}, {"group_by_length"}}},
      {.name = "remove_unused_columns",
       .group = kDataLoading,
       .field = &Args::remove_unused_columns,
       .help = "columns the model does not take are left out",
       .status = kNotYet,
       .why = "columns the model does not take are always left out"},

      {.name = "save_strategy",
       .group = kSaving,
       .field = &Args::save_strategy,
       .help = "when checkpoints are written",
       .choices = {{"steps"}, {"epoch"}, {"best"}, {"no"}}},
      {.name = "save_steps",
       .group = kSaving,
       .field = &Args::save_steps,
       .help = "steps between checkpoints; below 1 a share"},
      {.name = "save_total_limit",
       .group = kSaving,
       .field = &Args::save_total_limit,
       .help = "keep this many checkpoints, and the best"},
      {.name = "save_only_model",
       .group = kSaving,
       .field = &Args::save_only_model,
       .help = "checkpoints without optimizer state: they cannot be resumed"},
      {.name = "load_best_model_at_end",
       .group = kSaving,
       .field = &Args::load_best_model_at_end,
       .help = "end with the best checkpoint's weights"},
      {.name = "metric_for_best_model",
       .group = kSaving,
       .field = &Args::metric_for_best_model,
       .help = "with or without eval_; loss unless given"},
      {.name = "greater_is_better",
       .group = kSaving,
       .field = &Args::greater_is_better,
       .help = "unless given: not for names that end in loss"},
      {.name = "resume_from_checkpoint",
       .group = kSaving,
       .field = &Args::resume_from_checkpoint,
       .help = "a checkpoint's directory, or true: the newest complete one in output_dir",
       .true_text = "true"},
      {.name = "save_safetensors",
       .group = kSaving,
       .kind = kFlag,
       .standard = true,
       .status = kRefused,
       .why = "a pickle is never written"},
  };
}

std::vector<ArgumentSpec> evaluation_and_logging() {
  return {
      {.name = "eval_strategy",
       .group = kEvaluation,
       .field = &Args::eval_strategy,
       .help = "when to evaluate",
       .aliases = {"evaluation_strategy"},
       .choices = {{"no"}, {"steps"}, {"epoch"}}},
      {.name = "eval_steps",
       .group = kEvaluation,
       .field = &Args::eval_steps,
       .help = "steps between evaluations; logging_steps unless given"},
      {.name = "eval_delay",
       .group = kEvaluation,
       .field = &Args::eval_delay,
       .help = "epochs or steps (by eval_strategy) before the first"},
      {.name = "eval_on_start",
       .group = kEvaluation,
       .field = &Args::eval_on_start,
       .help = "evaluate before the first step"},

      {.name = "logging_strategy",
       .group = kLogging,
       .field = &Args::logging_strategy,
       .help = "when to log",
       .choices = {{"steps"}, {"epoch"}, {"no"}}},
      {.name = "logging_steps",
       .group = kLogging,
       .field = &Args::logging_steps,
       .help = "steps between log lines; below 1 a share"},
      {.name = "logging_first_step",
       .group = kLogging,
       .field = &Args::logging_first_step,
       .help = "log the first step too"},
      {.name = "logging_nan_inf_filter",
       .group = kLogging,
       .field = &Args::logging_nan_inf_filter,
       .status = kRefused,
       .why = "a NaN in the loss is always shown"},
      {.name = "report_to",
       .group = kLogging,
       .field = &Args::report_to,
       .help = "accepted as none",
       .choices = {{"none"},
                   {"all", kNoTracker},
                   {"tensorboard", kNoTracker},
                   {"wandb", kNoTracker},
                   {"mlflow", kNoTracker},
                   {"comet_ml", kNoTracker},
                   {"azure_ml", kNoTracker},
                   {"clearml", kNoTracker},
                   {"codecarbon", kNoTracker},
                   {"dagshub", kNoTracker},
                   {"dvclive", kNoTracker},
                   {"flyte", kNoTracker},
                   {"neptune", kNoTracker},
                   {"swanlab", kNoTracker},
                   {"trackio", kNoTracker},
                   {"kubeflow", kNoTracker}}},
      {.name = "include_num_input_tokens_seen",
       .group = kLogging,
       .field = &Args::include_num_input_tokens_seen,
       .help = "count input tokens (packed: none is padding)",
       .choices = {{"no"}, {"all"}, {"non_padding"}},
       .true_text = "all",
       .false_text = "no"},
  };
}

std::vector<ArgumentSpec> debugging() {
  return {
      {.name = "seed",
       .group = kDebugging,
       .field = &Args::seed,
       .help = "of new weights, dropout and order"},
      {.name = "data_seed",
       .group = kDebugging,
       .field = &Args::data_seed,
       .help = "of the order; seed unless given"},
      {.name = "full_determinism",
       .group = kDebugging,
       .field = &Args::full_determinism,
       .help = "accepted; runs are always deterministic"},
      {.name = "use_cpu",
       .group = kDebugging,
       .field = &Args::use_cpu,
       .help = "accepted; the CPU is what there is",
       .aliases = {"no_cuda"}},
      {.name = "detect_anomaly",
       .group = kDebugging,
       .field = &Args::detect_anomaly,
       .help = "stop at the first operation that gives NaN or Inf, and name it"},
      {.name = "dump_program",
       .group = kDebugging,
       .field = &Args::dump_program,
       .help = "directory for the program after each pass"},
      {.name = "skip_pass",
       .group = kDebugging,
       .field = &Args::skip_pass,
       .help = "passes to leave out, by name"},
  };
}

}  // namespace

std::vector<ArgumentSpec> running() {
  std::vector<ArgumentSpec> rows = loading_and_saving();
  for (ArgumentSpec& row : evaluation_and_logging()) rows.push_back(std::move(row));
  for (ArgumentSpec& row : debugging()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace shoehorn::argument_rows
