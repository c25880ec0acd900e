// Ends training when evaluations no longer improve: transformers' EarlyStoppingCallback.
//
// An evaluation improves if metric_for_best_model is better than the best one before it by more than the threshold.
// After `patience` evaluations in a row that do not, training stops. The first evaluation improves; NaN never does
// again. The best one is what the Trainer calls so: it moves with every better value, also by less than the
// threshold.
//
// The command line's --early_stopping_patience and --early_stopping_threshold add one. Its count is in checkpoints, as
// the Trainer writes it, and a resumed run goes on counting (the Trainer's begins anew, unless it is told otherwise).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/trainer_callback.h"

namespace shoehorn {

struct EarlyStoppingOptions {
  int64_t patience = 1;
  double threshold = 0;
  // Gets a line when training stops; may be unset.
  std::function<void(const std::string& line)> on_line = {};
};

class EarlyStopping final : public TrainerCallback {
 public:
  // UserError for a patience below 1 or a threshold below 0.
  explicit EarlyStopping(EarlyStoppingOptions options);

  // UserError without a metric_for_best_model, or without evaluations. A run that resumes where it stopped stops again,
  // unless its patience is greater now.
  void on_train_begin(const TrainingArguments& args, const TrainerState& state,
                      TrainerControl& control) override;
  void on_evaluate(const TrainingArguments& args, const TrainerState& state, TrainerControl& control,
                   const Metrics& metrics) override;
  void on_train_end(const TrainingArguments& args, const TrainerState& state,
                    TrainerControl& control) override;

  std::string state_name() const override { return "EarlyStoppingCallback"; }
  CallbackState state() const override;
  void restore(const CallbackState& state, const std::string& source) override;

  // Why training stopped, for people; empty: it did not.
  const std::string& reason() const { return reason_; }

  // Evaluations in a row that did not improve.
  int64_t count() const { return count_; }

 private:
  void stop_if_spent(const TrainingArguments& args, const TrainerState& state, TrainerControl& control);

  EarlyStoppingOptions options_;
  int64_t count_ = 0;
  std::string reason_;
  bool is_training_ = false;  // evaluations beside training do not count
};

}  // namespace shoehorn
