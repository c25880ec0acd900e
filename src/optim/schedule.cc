#include "optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/format.h"
#include "base/user_error_kinds.h"
#include "optim/reduce_lr_on_plateau.h"

namespace shoehorn {
namespace {

constexpr double kPi = std::numbers::pi;

struct TypeRow {
  ScheduleType type;
  const char* name;
  std::vector<std::string_view> options;
};

const std::vector<TypeRow>& type_rows() {
  static const std::vector<TypeRow> rows = {
      {ScheduleType::kLinear, "linear", {"warmup_type"}},
      {ScheduleType::kCosine, "cosine", {"num_cycles", "warmup_type"}},
      {ScheduleType::kCosineWithRestarts, "cosine_with_restarts", {"num_cycles"}},
      {ScheduleType::kPolynomial, "polynomial", {"power", "lr_end"}},
      {ScheduleType::kConstant, "constant", {}},
      {ScheduleType::kConstantWithWarmup, "constant_with_warmup", {"warmup_type"}},
      {ScheduleType::kInverseSqrt, "inverse_sqrt", {"timescale"}},
      {ScheduleType::kCosineWithMinLr,
       "cosine_with_min_lr",
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_type"}},
      {ScheduleType::kCosineWarmupWithMinLr,
       "cosine_warmup_with_min_lr",
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}},
      {ScheduleType::kWarmupStableDecay,
       "warmup_stable_decay",
       {"num_decay_steps", "num_stable_steps", "min_lr_ratio", "num_cycles", "warmup_type", "decay_type"}},
  };
  return rows;
}

const TypeRow& row_of(ScheduleType type) {
  for (const TypeRow& row : type_rows()) {
    if (row.type == type) return row;
  }
  CHECK(false, "schedule type {} has no row", static_cast<int>(type));
}

double at_least_one(double count) {
  return std::max(1.0, count);
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const TypeRow& row : type_rows()) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

ScheduleType parse_schedule_type(std::string_view name) {
  for (const TypeRow& row : type_rows()) {
    if (row.name == name) return row.type;
  }
  const std::string known = fmt::format("{}", fmt::join(schedule_names(), ", "));
  if (name == kReduceLrOnPlateau) {
    throw user_error(
        "[lr_scheduler_type] expected a function of the step, one of {}, got '{}'; it follows a metric: the "
        "Trainer tells it each evaluation's, a loop of one's own has to (ReduceLrOnPlateau)",
        known, name);
  }
  if (name == "greedy") {
    throw not_in_this_version(
        "[lr_scheduler_type] expected one of {}, got '{}'; known, but not in this version yet: it follows a "
        "metric and is no function of the step",
        known, name);
  }
  throw user_error("[lr_scheduler_type] expected one of {}, got '{}'{}", known, name,
                   did_you_mean(nearest_name(name, schedule_names())));
}

Schedule::Schedule(ScheduleType type, double learning_rate, int64_t warmup_steps, int64_t total_steps,
                   const ScheduleOptions& options)
    : type_(type),
      learning_rate_(learning_rate),
      warmup_steps_(static_cast<double>(warmup_steps)),
      total_steps_(static_cast<double>(total_steps)) {
  if (warmup_steps < 0) throw user_error("[warmup_steps] expected 0 or more, got {}", warmup_steps);
  if (total_steps < 0) throw user_error("[training steps] expected 0 or more, got {}", total_steps);
  if (!std::isfinite(learning_rate))
    throw user_error("[learning_rate] expected a number, got {}", learning_rate);
  check_options(options);

  num_cycles_ = options.num_cycles.value_or(type == ScheduleType::kCosineWithRestarts ? 1.0 : 0.5);
  power_ = options.power.value_or(1.0);
  lr_end_ = options.lr_end.value_or(1e-7);
  timescale_ = options.timescale.value_or(warmup_steps > 0 ? warmup_steps_ : 10000.0);
  warmup_lr_rate_ = options.warmup_lr_rate;
  set_warmup(options.warmup_type.value_or("linear"));
  decay_shape_ = parse_shape("decay_type", options.decay_type.value_or("cosine"));
  num_decay_steps_ = options.num_decay_steps.value_or(0.0);
  num_stable_steps_ = options.num_stable_steps.value_or(total_steps_ - warmup_steps_ - num_decay_steps_);

  if (type == ScheduleType::kPolynomial && !(learning_rate > lr_end_)) {
    throw user_error("[lr_scheduler_kwargs: lr_end] expected less than learning_rate {}, got {}",
                     learning_rate, lr_end_);
  }
  if (type == ScheduleType::kInverseSqrt && !(timescale_ > 0)) {
    throw user_error("[lr_scheduler_kwargs: timescale] expected more than 0 steps, got {}", timescale_);
  }
  if (type == ScheduleType::kWarmupStableDecay) {
    if (!options.num_decay_steps) {
      throw user_error(
          "[lr_scheduler_kwargs: num_decay_steps] expected a number of steps, got nothing; "
          "warmup_stable_decay needs it");
    }
    min_lr_rate_ = options.min_lr_ratio.value_or(0.0);
  }
  if (type == ScheduleType::kCosineWithMinLr || type == ScheduleType::kCosineWarmupWithMinLr) {
    set_min_lr_rate(options);
  }
}

void Schedule::set_warmup(const std::string& name) {
  if (type_ == ScheduleType::kWarmupStableDecay) {
    warmup_shape_ = parse_shape("warmup_type", name);
    return;
  }
  has_log_warmup_ = name == "log";
  if (has_log_warmup_ || name == "linear") return;
  throw user_error("[lr_scheduler_kwargs: warmup_type] expected linear or log for {}, got '{}'",
                   row_of(type_).name, name);
}

Schedule::Shape Schedule::parse_shape(std::string_view option, const std::string& name) {
  if (name == "linear") return Shape::kLinear;
  if (name == "cosine") return Shape::kCosine;
  if (name == "1-sqrt") return Shape::kOneMinusSqrt;
  throw user_error("[lr_scheduler_kwargs: {}] expected one of linear, cosine, 1-sqrt, got '{}'", option,
                   name);
}

void Schedule::check_options(const ScheduleOptions& options) const {
  const TypeRow& row = row_of(type_);
  const auto refuse_unless_taken = [&](std::string_view name, bool given) {
    if (!given || std::find(row.options.begin(), row.options.end(), name) != row.options.end()) return;
    throw user_error("[lr_scheduler_kwargs: {}] expected {} for lr_scheduler_type {}, got {}", name,
                     row.options.empty() ? "nothing" : fmt::format("one of {}", fmt::join(row.options, ", ")),
                     row.name, name);
  };
  const std::array<std::pair<std::string_view, const std::optional<double>*>, 10> numbers = {{
      {"num_cycles", &options.num_cycles},
      {"power", &options.power},
      {"lr_end", &options.lr_end},
      {"timescale", &options.timescale},
      {"min_lr", &options.min_lr},
      {"min_lr_rate", &options.min_lr_rate},
      {"warmup_lr_rate", &options.warmup_lr_rate},
      {"num_stable_steps", &options.num_stable_steps},
      {"num_decay_steps", &options.num_decay_steps},
      {"min_lr_ratio", &options.min_lr_ratio},
  }};
  for (const auto& [name, value] : numbers) {
    refuse_unless_taken(name, value->has_value());
    if (value->has_value() && !(std::isfinite(**value) && **value >= 0)) {
      throw user_error("[lr_scheduler_kwargs: {}] expected a number of 0 or more, got {}", name, **value);
    }
  }
  refuse_unless_taken("warmup_type", options.warmup_type.has_value());
  refuse_unless_taken("decay_type", options.decay_type.has_value());
}

void Schedule::set_min_lr_rate(const ScheduleOptions& options) {
  if (options.min_lr.has_value() == options.min_lr_rate.has_value()) {
    throw user_error("[lr_scheduler_kwargs] expected exactly one of min_lr and min_lr_rate for {}, got {}",
                     row_of(type_).name, options.min_lr.has_value() ? "both" : "neither");
  }
  if (options.min_lr && !(learning_rate_ > 0)) {
    throw user_error("[lr_scheduler_kwargs: min_lr] expected a learning_rate above 0, got {}",
                     learning_rate_);
  }
  min_lr_rate_ = options.min_lr ? *options.min_lr / learning_rate_ : *options.min_lr_rate;
}

double Schedule::multiplier(int64_t step) const {
  CHECK(step >= 0, "step {}", step);
  const double s = static_cast<double>(step);
  if (type_ == ScheduleType::kConstant) return 1.0;
  if (type_ == ScheduleType::kCosineWarmupWithMinLr) return cosine_warmup_with_min_lr(s);
  if (type_ == ScheduleType::kWarmupStableDecay) return warmup_stable_decay(s);
  return s < warmup_steps_ ? warmup(s) : after_warmup(s);
}

double Schedule::warmup(double step) const {
  if (has_log_warmup_) return std::log(step + 1) / std::log(std::max(2.0, warmup_steps_));
  return step / at_least_one(warmup_steps_);
}

double Schedule::after_warmup(double step) const {
  const double progress = (step - warmup_steps_) / at_least_one(total_steps_ - warmup_steps_);
  switch (type_) {
    case ScheduleType::kLinear:
      return std::max(0.0, (total_steps_ - step) / at_least_one(total_steps_ - warmup_steps_));
    case ScheduleType::kCosine:
    case ScheduleType::kCosineWithMinLr:
      return cosine(progress);
    case ScheduleType::kCosineWithRestarts:
      if (progress >= 1.0) return 0.0;
      return std::max(0.0, 0.5 * (1.0 + std::cos(kPi * std::fmod(num_cycles_ * progress, 1.0))));
    case ScheduleType::kPolynomial:
      return polynomial(step);
    case ScheduleType::kInverseSqrt:
      return 1.0 / std::sqrt((step + timescale_ - warmup_steps_) / timescale_);
    default:
      return 1.0;
  }
}

double Schedule::cosine(double progress) const {
  const double factor = 0.5 * (1.0 + std::cos(kPi * num_cycles_ * 2.0 * progress));
  return std::max(0.0, factor * (1.0 - min_lr_rate_) + min_lr_rate_);
}

double Schedule::polynomial(double step) const {
  // At s = W = T transformers divides by zero; the end of the decay is what the neighbouring steps say.
  if (step > total_steps_ || total_steps_ <= warmup_steps_) return lr_end_ / learning_rate_;
  const double remaining = 1.0 - (step - warmup_steps_) / (total_steps_ - warmup_steps_);
  return ((learning_rate_ - lr_end_) * std::pow(remaining, power_) + lr_end_) / learning_rate_;
}

double Schedule::cosine_warmup_with_min_lr(double step) const {
  if (step < warmup_steps_) {
    if (!warmup_lr_rate_) return (step + 1.0) / at_least_one(warmup_steps_);
    return *warmup_lr_rate_ + (1.0 - *warmup_lr_rate_) * step / at_least_one(warmup_steps_ - 1.0);
  }
  return cosine((step - warmup_steps_ + 1.0) / at_least_one(total_steps_ - warmup_steps_));
}

double Schedule::warmup_stable_decay(double step) const {
  double factor = 0.0;
  if (step < warmup_steps_) {
    const double progress = step / at_least_one(warmup_steps_);
    switch (warmup_shape_) {
      case Shape::kLinear:
        factor = progress;
        break;
      case Shape::kCosine:
        factor = 0.5 * (1.0 - std::cos(kPi * progress));
        break;
      case Shape::kOneMinusSqrt:
        factor = 1.0 - std::sqrt(1.0 - progress);
        break;
    }
  } else if (step < warmup_steps_ + num_stable_steps_) {
    return 1.0;
  } else if (step < warmup_steps_ + num_stable_steps_ + num_decay_steps_) {
    const double progress = (step - warmup_steps_ - num_stable_steps_) / at_least_one(num_decay_steps_);
    switch (decay_shape_) {
      case Shape::kLinear:
        factor = 1.0 - progress;
        break;
      case Shape::kCosine:
        factor = 0.5 * (1.0 + std::cos(kPi * num_cycles_ * 2.0 * progress));
        break;
      case Shape::kOneMinusSqrt:
        factor = 1.0 - std::sqrt(progress);
        break;
    }
  } else {
    return min_lr_rate_;
  }
  return std::max(0.0, factor * (1.0 - min_lr_rate_) + min_lr_rate_);
}

int64_t warmup_step_count(double warmup_steps, int64_t total_steps) {
  if (!(warmup_steps >= 0)) throw user_error("[warmup_steps] expected 0 or more, got {}", warmup_steps);
  if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_steps));
}

}  // namespace shoehorn
