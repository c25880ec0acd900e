#include "train/early_stopping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "arguments/argument_checks.h"
#include "base/error.h"

namespace shoehorn {

namespace {

constexpr const char* kCounter = "early_stopping_patience_counter";

// True if an evaluation of a trained model is in the log beside the newest one. A best metric alone does not tell: NaN
// is never the best.
bool has_earlier_evaluation(const TrainingArguments& args, const TrainerState& state) {
  const std::string name = full_metric_name(args.metric_for_best_model);
  const auto evaluations =
      std::count_if(state.log_history.begin(), state.log_history.end(), [&](const Metrics& entry) {
        const auto step = entry.find("step");
        return entry.contains(name) && step != entry.end() && metric_number(step->second) > 0;
      });
  return evaluations > 1;
}

}  // namespace

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  require_positive("early_stopping_patience", options_.patience);
  require(options_.threshold >= 0, "early_stopping_threshold", "0 or more", options_.threshold);
}

void EarlyStopping::on_train_begin(const TrainingArguments& args, const TrainerState& state,
                                   TrainerControl& control) {
  if (args.metric_for_best_model.empty()) {
    throw user_error(
        "[metric_for_best_model] expected a metric, because early stopping watches it, got nothing");
  }
  if (args.eval_strategy == "no") {
    throw user_error(
        "[eval_strategy] expected steps or epoch, because early stopping looks at evaluations, got 'no'");
  }
  is_training_ = true;
  reason_.clear();
  if (!args.load_best_model_at_end && options_.on_line)
    options_.on_line(
        "early stopping ends with the last step's weights; --load_best_model_at_end, with the best");
  stop_if_spent(args, state, control);
}

void EarlyStopping::on_train_end(const TrainingArguments&, const TrainerState&, TrainerControl&) {
  is_training_ = false;
}

void EarlyStopping::on_evaluate(const TrainingArguments& args, const TrainerState& state,
                                TrainerControl& control, const Metrics& metrics) {
  if (!is_training_) return;
  const double value = best_model_metric(args, metrics);
  const bool greater = args.greater_is_better.value_or(false);
  const double worst =
      greater ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const double best = state.best_metric.value_or(worst);
  const bool is_better = greater ? value > best : value < best;
  const bool is_first = !state.best_metric && !has_earlier_evaluation(args, state);
  count_ = is_first || (is_better && std::abs(value - best) > options_.threshold) ? 0 : count_ + 1;
  stop_if_spent(args, state, control);
}

void EarlyStopping::stop_if_spent(const TrainingArguments& args, const TrainerState& state,
                                  TrainerControl& control) {
  if (count_ < options_.patience) return;
  control.should_training_stop = true;
  reason_ =
      fmt::format("early stopping at step {}: {} did not improve in {}{}", state.global_step,
                  full_metric_name(args.metric_for_best_model),
                  count_ == 1 ? "the last evaluation" : fmt::format("the last {} evaluations", count_),
                  options_.threshold > 0 ? fmt::format(" by more than {:.6g}", options_.threshold) : "");
  if (options_.on_line) options_.on_line(reason_);
}

CallbackState EarlyStopping::state() const {
  return {.args = {{"early_stopping_patience", options_.patience},
                   {"early_stopping_threshold", options_.threshold}},
          .attributes = {{kCounter, count_}}};
}

void EarlyStopping::restore(const CallbackState& state, const std::string& source) {
  const auto found = state.attributes.find(kCounter);
  const auto* count = found == state.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  if (count == nullptr || *count < 0)
    throw user_error("[{}: {}] expected a whole number, 0 or more, got another value or none", source,
                     kCounter);
  count_ = *count;
}

}  // namespace shoehorn
