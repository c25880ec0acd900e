// The steps of a training run in the Trainer's order, and what is due between them: log entries, evaluations,
// checkpoints.
//
//   TrainingLoop loop({.args = args, .run = run, …});
//   loop.run(progress);
//
// The state and the position move with each step, so that a checkpoint can be written between any two. They also say
// where in between: a run that was stopped while an evaluation was due begins with that evaluation when it is resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/step_profile.h"
#include "arguments/training_arguments.h"
#include "model/score.h"
#include "ranks/communicator.h"
#include "state/resume_state.h"
#include "state/trainer_state.h"
#include "train/learning_rate.h"
#include "train/planned_run.h"
#include "train/progress.h"
#include "train/run_reports.h"
#include "train/step_share.h"
#include "train/trainer_callback.h"

namespace shoehorn {

// Everything that is referred to must outlive the loop. The run is reserved and holds the weights.
struct TrainingLoopParts {
  const TrainingArguments& args;
  PlannedRun& run;
  const LearningRate& learning_rate;
  TrainerState& state;
  RunPosition& position;
  RunReports& reports;
  const CallbackList& callbacks;
  std::function<Metrics()> evaluate;
  // Writes a checkpoint of the state and returns its path.
  std::function<std::filesystem::path()> save;
  // Called when the first step begins.
  std::function<void()> on_first_step;
  Communicator* ranks = nullptr;  // null: there is one
};

// What a step computed on.
struct StepSize {
  int64_t samples = 0;
  int64_t tokens = 0;  // of the input, without padding
};

class TrainingLoop {
 public:
  explicit TrainingLoop(TrainingLoopParts parts);

  // From the state's global_step to its max_steps, or until a callback ends it. Errors of evaluate and save;
  // SystemError if a report cannot be written. Stopped (base/stop_request.h): the step or the evaluation that was
  // under way is given up, and a checkpoint of the state and the position goes on as if it had never been begun.
  void run(Progress& progress);
  // An evaluation before the first step. As in the Trainer, it neither makes a best model nor moves the learning rate.
  void evaluate_untrained(Progress& progress);

  // Of this call of run().
  int64_t steps() const { return parts_.state.global_step - first_step_; }
  int64_t samples() const { return samples_; }
  // Seconds of each step, and what it computed on.
  const std::vector<double>& step_seconds() const { return step_seconds_; }
  const std::vector<StepSize>& step_sizes() const { return step_sizes_; }
  double data_wait_seconds() const;

  // Adds loss_scale and skipped_steps, if the run scales its loss.
  void add_loss_scale(Metrics& metrics) const;

 private:
  bool is_over(const ResumePoint& point) const;
  void finish_last_step(Progress& progress);
  void run_epoch(const ResumePoint& point, Progress& progress);
  void end_epoch(Progress& progress);
  bool next_window(Window& window);
  void begin_step();
  void take_step(const Window& window);
  int64_t local_steps() const;
  void add_loss(const Window& window, float loss);
  void share_losses();
  void end_steps_alone();
  void step_or_drop(const Window& window);
  int64_t scheduled_steps() const;
  void skip_rest_of_epoch();
  void do_what_is_due(Progress& progress);
  void log(Metrics entry, Progress& progress);
  void log_losses(Progress& progress);
  void evaluate(Progress& progress);
  Metrics log_evaluation(Progress& progress);
  void save(Progress& progress);

  TrainingLoopParts parts_;
  StepShare share_;
  int64_t first_step_;
  int64_t first_nonfinite_losses_;  // of the steps before this run
  bool is_nonfinite_said_ = false;
  double flops_a_token_;  // as transformers counts them
  int64_t samples_ = 0;
  // Of local SGD, since ranks last told each other.
  struct OwnLosses {
    double sum = 0;
    int64_t counted = 0;  // steps in which the rank had a target
    int64_t steps = 0;
    int64_t nonfinite = 0;
  };
  OwnLosses own_losses_;
  bool is_alone_ = false;  // steps were taken since the last outer update
  float last_grad_norm_ = 0;
  double last_learning_rate_ = 0;
  double window_wait_seconds_ = 0;
  std::vector<double> step_seconds_;
  std::vector<StepSize> step_sizes_;
};

}  // namespace shoehorn
