// The state of a run, in the fields and the file of transformers 5.23's TrainerState (trainer_state.json),
// and the decisions of its flow: when to log, evaluate, save and stop. One step is one optimizer step.
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

// What the trainer does next; saved as the callback "TrainerControl".
struct TrainerControl {
  bool should_epoch_stop = false;
  bool should_evaluate = false;
  bool should_log = false;
  bool should_save = false;
  bool should_training_stop = false;

  bool operator==(const TrainerControl&) const = default;
};

struct TrainerState {
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::optional<std::string> best_model_checkpoint;
  double epoch = 0.0;
  int64_t global_step = 0;
  int64_t max_steps = 0;
  int64_t num_train_epochs = 0;
  int64_t logging_steps = 500;  // absolute numbers of steps: see compute_steps
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
  // What others wrote and we only carry: stateful_callbacks besides TrainerControl and trial_params, as JSON
  // text.
  std::map<std::string, std::string> other_callbacks;
  std::string trial_params = "null";

  bool operator==(const TrainerState&) const = default;

  // Sets logging_steps, eval_steps and save_steps for a run of `max_steps`: shares become steps, rounded up.
  void compute_steps(const TrainingArguments& args, int64_t max_steps);

  // Appends `entry` with epoch and step to log_history and returns it.
  const Metrics& log(Metrics entry);
};

nlohmann::json to_json(const TrainerState& state);
// UserError, "[`source`: field] …", for a field that is missing, unknown or of another type.
TrainerState trainer_state_from_json(const nlohmann::json& object, const std::string& source);

// UserError (malformed) or SystemError (cannot be read or written), naming the path.
void save_trainer_state(const TrainerState& state, const std::filesystem::path& path);
TrainerState load_trainer_state(const std::filesystem::path& path);

// What is due after a step, at the end of an epoch. `args` resolved and valid, the state's steps computed.
// control.should_training_stop stays set; the rest is decided anew.
void decide_after_step(const TrainingArguments& args, TrainerState& state);
void decide_after_epoch(const TrainingArguments& args, TrainerState& state);

// What metric_for_best_model, which is given, names in the metrics of an evaluation; UserError if they lack
// it, naming those there are.
double best_model_metric(const TrainingArguments& args, const Metrics& metrics);

// After an evaluation: whether metric_for_best_model in `metrics` is the best so far, which is then noted in
// best_metric and best_global_step. A NaN is never the best. No metric_for_best_model: false.
// UserError as above.
bool update_best_metric(const TrainingArguments& args, const Metrics& metrics, TrainerState& state);

}  // namespace shoehorn
