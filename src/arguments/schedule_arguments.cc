// --lr_scheduler_type, --lr_scheduler_kwargs and warm-up: how the learning rate moves.
#include "arguments/argument_checks.h"
#include "arguments/training_arguments.h"

namespace shoehorn {
namespace {

PlateauOptions plateau_options(const KwargsReader& reader) {
  PlateauOptions options;
  const auto choice = [&](const std::string& key, const std::string& standard, const std::string& other) {
    const std::string value = reader.text(key).value_or(standard);
    if (value == standard || value == other) return value == other;
    throw user_error("[lr_scheduler_kwargs: {}] expected {} or {}, got '{}'", key, standard, other, value);
  };
  const auto count = [&](const std::string& key, int64_t standard) {
    const double value = reader.number(key).value_or(static_cast<double>(standard));
    // Integers of a double are exact up to there.
    require(value >= 0 && value <= 0x1p53 && value == std::floor(value), "lr_scheduler_kwargs: " + key,
            "an integer of 0 or more", value);
    return static_cast<int64_t>(value);
  };
  options.is_max = choice("mode", "min", "max");
  options.factor = reader.number("factor").value_or(options.factor);
  options.patience = count("patience", options.patience);
  options.threshold = reader.number("threshold").value_or(options.threshold);
  options.is_absolute = choice("threshold_mode", "rel", "abs");
  options.cooldown = count("cooldown", options.cooldown);
  options.min_lr = reader.number("min_lr").value_or(options.min_lr);
  options.eps = reader.number("eps").value_or(options.eps);
  return options;
}

}  // namespace

int64_t warmup_steps_of(const TrainingArguments& args, int64_t total_steps) {
  if (args.warmup_steps > 0) return warmup_step_count(args.warmup_steps, total_steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * args.warmup_ratio));
}

Schedule schedule_of(const TrainingArguments& args, int64_t total_steps) {
  const ScheduleType type = parse_schedule_type(args.lr_scheduler_type);
  const KwargsReader reader(
      "lr_scheduler_kwargs", args.lr_scheduler_kwargs,
      {"num_cycles", "power", "lr_end", "timescale", "min_lr", "min_lr_rate", "warmup_lr_rate",
       "num_stable_steps", "num_decay_steps", "min_lr_ratio", "warmup_type", "decay_type"});
  ScheduleOptions options;
  options.num_cycles = reader.number("num_cycles");
  options.power = reader.number("power");
  options.lr_end = reader.number("lr_end");
  options.timescale = reader.number("timescale");
  options.min_lr = reader.number("min_lr");
  options.min_lr_rate = reader.number("min_lr_rate");
  options.warmup_lr_rate = reader.number("warmup_lr_rate");
  options.num_stable_steps = reader.number("num_stable_steps");
  options.num_decay_steps = reader.number("num_decay_steps");
  options.min_lr_ratio = reader.number("min_lr_ratio");
  options.warmup_type = reader.text("warmup_type");
  options.decay_type = reader.text("decay_type");
  return {type, scaled_learning_rate(args), warmup_steps_of(args, total_steps), total_steps, options};
}

std::optional<ReduceLrOnPlateau> reduce_lr_on_plateau_of(const TrainingArguments& args) {
  if (args.lr_scheduler_type != kReduceLrOnPlateau) return std::nullopt;
  const KwargsReader reader(
      "lr_scheduler_kwargs", args.lr_scheduler_kwargs,
      {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"});
  const PlateauOptions options = plateau_options(reader);
  if (args.greater_is_better.value_or(false) && !reader.text("mode")) {
    throw user_error(
        "[lr_scheduler_kwargs: mode] expected max, or min if it is meant, because greater is better of "
        "metric_for_best_model {}, got nothing; the default, min, reduces the rate while the metric improves",
        args.metric_for_best_model);
  }
  return ReduceLrOnPlateau(scaled_learning_rate(args), options);
}

}  // namespace shoehorn
