#include "train/learning_rate.h"

#include <fmt/format.h>

#include "graph/relative_step.h"

namespace shoehorn {

namespace {

std::variant<Schedule, ReduceLrOnPlateau> rule_of(const TrainingArguments& args, int64_t max_steps) {
  if (const std::optional<ReduceLrOnPlateau> plateau = reduce_lr_on_plateau_of(args)) return *plateau;
  return schedule_of(args, max_steps);
}

}  // namespace

LearningRate::LearningRate(const TrainingArguments& args, OptimizerSettings optimizer, int64_t max_steps)
    : optimizer_(std::move(optimizer)), rule_(rule_of(args, max_steps)) {}

double LearningRate::next(const RunPosition& position) const {
  if (const auto own = relative_step_of(optimizer_, position.applied_updates)) return *own;
  if (follows_metric()) return position.plateau->learning_rate;
  return std::get<Schedule>(rule_).learning_rate(position.applied_updates);
}

std::optional<PlateauState> LearningRate::start() const {
  if (!follows_metric()) return std::nullopt;
  return std::get<ReduceLrOnPlateau>(rule_).start();
}

std::optional<std::string> LearningRate::follow_metric(double metric, RunPosition& position) const {
  const double before = position.plateau->learning_rate;
  position.plateau = std::get<ReduceLrOnPlateau>(rule_).next(*position.plateau, metric);
  const double after = position.plateau->learning_rate;
  if (after >= before) return std::nullopt;
  return fmt::format("{}: learning_rate {:.6g}, was {:.6g}", kReduceLrOnPlateau, after, before);
}

}  // namespace shoehorn
