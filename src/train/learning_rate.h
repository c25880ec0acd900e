// What moves the learning rate of a run: a schedule over the updates, the metric of each evaluation
// (reduce_lr_on_plateau), or the optimizer itself (Adafactor's relative step).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "arguments/training_arguments.h"
#include "graph/optimizer_settings.h"
#include "optim/reduce_lr_on_plateau.h"
#include "optim/schedule.h"
#include "state/resume_state.h"

namespace shoehorn {

class LearningRate {
 public:
  // Of a run of `max_steps` that is updated with `optimizer`. `args` are resolved and valid.
  LearningRate(const TrainingArguments& args, OptimizerSettings optimizer, int64_t max_steps);

  // Of the next update. A schedule moves with the updates that were applied: a skipped step does not count.
  double next(const RunPosition& position) const;

  // What a run begins with; nullopt if no metric moves the learning rate.
  std::optional<PlateauState> start() const;
  // Call it after an evaluation with this `metric`. Returns a line for people if the learning rate falls.
  std::optional<std::string> follow_metric(double metric, RunPosition& position) const;
  bool follows_metric() const { return std::holds_alternative<ReduceLrOnPlateau>(rule_); }

 private:
  OptimizerSettings optimizer_;
  std::variant<Schedule, ReduceLrOnPlateau> rule_;
};

}  // namespace shoehorn
