// The state of a run, with the fields and the file of transformers 5.23's TrainerState (trainer_state.json);
// and the decisions when to log, evaluate, save and stop. A step is an optimizer step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "model/score.h"

namespace shoehorn {

// What the trainer does next. Saved as the callback "TrainerControl".
struct TrainerControl {
  bool should_epoch_stop = false;
  bool should_evaluate = false;
  bool should_log = false;
  bool should_save = false;
  bool should_training_stop = false;

  bool operator==(const TrainerControl&) const = default;
  // Adds what another asks for.
  TrainerControl& operator|=(const TrainerControl& other);
};

struct TrainerState {
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::optional<std::string> best_model_checkpoint;
  double epoch = 0.0;
  int64_t global_step = 0;
  int64_t max_steps = 0;
  int64_t num_train_epochs = 0;
  int64_t logging_steps = 500;  // numbers of steps: see compute_steps
  int64_t eval_steps = 500;
  int64_t save_steps = 500;
  std::optional<int64_t> train_batch_size;  // sequences in a micro-batch
  int64_t num_input_tokens_seen = 0;
  double total_flos = 0.0;
  // In order of time: {loss, grad_norm, learning_rate, epoch, step}, {eval_…, epoch, step}, at last
  // {train_runtime, …, epoch, step}.
  std::vector<Metrics> log_history;
  bool is_hyper_param_search = false;
  bool is_local_process_zero = true;
  bool is_world_process_zero = true;
  std::optional<std::string> trial_name;
  TrainerControl control;
  // Written by others and only passed on: stateful_callbacks other than TrainerControl, and trial_params as
  // JSON text.
  std::map<std::string, std::string> other_callbacks;
  std::string trial_params = "null";

  bool operator==(const TrainerState&) const = default;

  // Sets logging_steps, eval_steps and save_steps for a run of `max_steps`. Fractions become steps, rounded
  // up.
  void compute_steps(const TrainingArguments& args, int64_t max_steps);

  // Adds epoch and step to `entry`, appends it to log_history, and returns it.
  const Metrics& log(Metrics entry);
};

nlohmann::json to_json(const TrainerState& state);
// UserError "[`source`: field] …" for a field that is missing, unknown or of another type.
TrainerState trainer_state_from_json(const nlohmann::json& object, const std::string& source);

// UserError (malformed) or SystemError (cannot be read or written), naming the path.
void save_trainer_state(const TrainerState& state, const std::filesystem::path& path);
TrainerState load_trainer_state(const std::filesystem::path& path);

// Sets what is due after a step, or at the end of an epoch. `args` are resolved and valid; the state's steps
// are computed. control.should_training_stop stays set; the other decisions are made anew.
void decide_after_step(const TrainingArguments& args, TrainerState& state);
void decide_after_epoch(const TrainingArguments& args, TrainerState& state);

// "eval_accuracy" for "accuracy" and for itself.
std::string full_metric_name(const std::string& metric);

// The value of metric_for_best_model in an evaluation's metrics. UserError listing the metrics if it is not
// among them.
double best_model_metric(const TrainingArguments& args, const Metrics& metrics);

// Call it after an evaluation. True if metric_for_best_model has its best value so far; best_metric and
// best_global_step are then updated. NaN is never the best. False if metric_for_best_model is not set.
// UserError as above.
bool update_best_metric(const TrainingArguments& args, const Metrics& metrics, TrainerState& state);

}  // namespace shoehorn
