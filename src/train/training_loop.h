// The steps of a training run in the Trainer's order, and what is due between them: log entries, evaluations,
// checkpoints.
//
//   TrainingLoop loop({.args = args, .run = run, …});
//   loop.run(progress);
//
// The state and the position move with each step, so that a checkpoint can be written between any two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/step_profile.h"
#include "arguments/training_arguments.h"
#include "model/score.h"
#include "state/resume_state.h"
#include "state/trainer_state.h"
#include "train/learning_rate.h"
#include "train/planned_run.h"
#include "train/progress.h"
#include "train/run_reports.h"

namespace shoehorn {

// Everything that is referred to must outlive the loop. The run is reserved and holds the weights.
struct TrainingLoopParts {
  const TrainingArguments& args;
  PlannedRun& run;
  const LearningRate& learning_rate;
  TrainerState& state;
  RunPosition& position;
  RunReports& reports;
  std::function<Metrics()> evaluate;
  // Writes a checkpoint of the state and returns its path.
  std::function<std::filesystem::path()> save;
  // Called when the first step begins.
  std::function<void()> on_first_step;
};

class TrainingLoop {
 public:
  explicit TrainingLoop(TrainingLoopParts parts);

  // From the state's global_step to its max_steps. Errors of evaluate and save; SystemError if a report cannot be
  // written.
  void run(Progress& progress);
  // An evaluation before the first step. As in the Trainer, it neither makes a best model nor moves the learning rate.
  void evaluate_untrained(Progress& progress);

  // Of this call of run().
  int64_t steps() const { return parts_.state.global_step - first_step_; }
  int64_t samples() const { return samples_; }
  // Seconds of each step.
  const std::vector<double>& step_seconds() const { return step_seconds_; }
  double data_wait_seconds() const;

  // Adds loss_scale and skipped_steps, if the run scales its loss.
  void add_loss_scale(Metrics& metrics) const;

 private:
  bool next_window(Window& window);
  void take_step(const Window& window);
  void do_what_is_due(Progress& progress);
  void log_losses(Progress& progress);
  void evaluate(Progress& progress);
  void save(Progress& progress);

  TrainingLoopParts parts_;
  int64_t first_step_;
  double flops_a_token_;  // as transformers counts them
  int64_t samples_ = 0;
  float last_grad_norm_ = 0;
  double last_learning_rate_ = 0;
  double window_wait_seconds_ = 0;
  std::vector<double> step_seconds_;
};

}  // namespace shoehorn
