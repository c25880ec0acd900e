// --optim and --optim_args: which optimizer, with the keys of the implementation that it follows.
#include "arguments/argument_checks.h"
#include "arguments/training_arguments.h"
#include "graph/relative_step.h"

namespace shoehorn {
namespace {

SgdSettings sgd_settings(const KwargsReader& reader) {
  SgdSettings settings;
  settings.momentum = reader.number("momentum").value_or(settings.momentum);
  settings.nesterov = reader.flag("nesterov").value_or(settings.nesterov);
  require_fraction("optim_args: momentum", settings.momentum);
  if (settings.nesterov && settings.momentum == 0)
    throw user_error("[optim_args: nesterov] expected a momentum above 0, got 0");
  return settings;
}

AdagradSettings adagrad_settings(const KwargsReader& reader) {
  AdagradSettings settings;
  settings.lr_decay = reader.number("lr_decay").value_or(settings.lr_decay);
  settings.epsilon = reader.number("eps").value_or(settings.epsilon);
  require(settings.lr_decay >= 0, "optim_args: lr_decay", "0 or more", settings.lr_decay);
  require(settings.epsilon >= 0, "optim_args: eps", "0 or more", settings.epsilon);
  return settings;
}

RmsPropSettings rmsprop_settings(const KwargsReader& reader) {
  RmsPropSettings settings;
  settings.momentum = reader.number("momentum").value_or(settings.momentum);
  settings.alpha = reader.number("alpha").value_or(settings.alpha);
  settings.epsilon = reader.number("eps").value_or(settings.epsilon);
  settings.centered = reader.flag("centered").value_or(settings.centered);
  require_fraction("optim_args: momentum", settings.momentum);
  require_fraction("optim_args: alpha", settings.alpha);
  require(settings.epsilon >= 0, "optim_args: eps", "0 or more", settings.epsilon);
  return settings;
}

AdafactorSettings adafactor_settings(const KwargsReader& reader) {
  AdafactorSettings settings;
  settings.gradient_epsilon = reader.number("eps1").value_or(settings.gradient_epsilon);
  settings.parameter_epsilon = reader.number("eps2").value_or(settings.parameter_epsilon);
  settings.clip_threshold = reader.number("clip_threshold").value_or(settings.clip_threshold);
  settings.decay_rate = reader.number("decay_rate").value_or(settings.decay_rate);
  settings.beta1 = reader.number("beta1");
  settings.scale_parameter = reader.flag("scale_parameter").value_or(settings.scale_parameter);
  settings.relative_step = reader.flag("relative_step").value_or(settings.relative_step);
  settings.warmup_init = reader.flag("warmup_init").value_or(settings.warmup_init);
  require(settings.gradient_epsilon > 0, "optim_args: eps1", "more than 0", settings.gradient_epsilon);
  require(settings.parameter_epsilon >= 0, "optim_args: eps2", "0 or more", settings.parameter_epsilon);
  require(settings.clip_threshold > 0, "optim_args: clip_threshold", "more than 0", settings.clip_threshold);
  require(settings.decay_rate < 0, "optim_args: decay_rate", "less than 0", settings.decay_rate);
  if (settings.beta1) require_fraction("optim_args: beta1", *settings.beta1);
  if (settings.warmup_init && !settings.relative_step)
    throw user_error("[optim_args: warmup_init] expected relative_step=true with it, got false");
  return settings;
}

// Adafactor's own rate is read in place of any other, so that what says one would have no effect.
void require_no_rate(std::string_view name, bool given) {
  if (!given) return;
  throw user_error(
      "[{}] expected none with optim_args relative_step=true, got one; Adafactor then sets its own rate, "
      "min(0.01, 1 / sqrt(step)), which no schedule moves",
      name);
}

void require_no_rate(const TrainingArguments& args) {
  const TrainingArguments standard;
  require_no_rate("learning_rate", args.learning_rate != standard.learning_rate);
  require_no_rate("scale_learning_rate", args.scale_learning_rate != standard.scale_learning_rate);
  require_no_rate("lr_scheduler_type", args.lr_scheduler_type != standard.lr_scheduler_type);
  require_no_rate("lr_scheduler_kwargs", !args.lr_scheduler_kwargs.empty());
  require_no_rate("warmup_steps", args.warmup_steps != 0);
  require_no_rate("warmup_ratio", args.warmup_ratio != 0);
}

EightBitStates eight_bit_states(const KwargsReader& reader) {
  EightBitStates states;
  const double bits = reader.number("embedding_bits").value_or(32);
  const double least = reader.number("min_8bit_size").value_or(static_cast<double>(states.least_elements));
  require(bits == 8 || bits == 32, "optim_args: embedding_bits", "8 or 32", bits);
  // Integers of a double are exact up to there.
  require(least >= 1 && least <= 0x1p53 && least == std::floor(least), "optim_args: min_8bit_size",
          "an integer above 0", least);
  states.of_embeddings = bits == 8;
  states.least_elements = static_cast<int64_t>(least);
  return states;
}

}  // namespace

std::string_view optimizer_name(const TrainingArguments& args) {
  if (args.optim == "lion_32bit") return "lion";
  if (args.optim == "adamw_8bit" || args.optim == "adamw_bnb_8bit") return "adamw_8bit";
  return args.optim.starts_with("adamw_") ? std::string_view("adamw") : std::string_view(args.optim);
}

OptimizerSettings optimizer_settings_of(const TrainingArguments& args) {
  const std::string_view name = optimizer_name(args);
  const auto read = [&](std::vector<std::string> known) {
    return KwargsReader("optim_args", args.optim_args, std::move(known));
  };
  if (name == "sgd") return sgd_settings(read({"momentum", "nesterov"}));
  if (name == "adagrad") return adagrad_settings(read({"lr_decay", "eps"}));
  if (name == "rmsprop") return rmsprop_settings(read({"momentum", "alpha", "eps", "centered"}));
  if (name == "adafactor") {
    const AdafactorSettings settings =
        adafactor_settings(read({"eps1", "eps2", "clip_threshold", "decay_rate", "beta1", "scale_parameter",
                                 "relative_step", "warmup_init"}));
    if (settings.relative_step) require_no_rate(args);
    return settings;
  }
  if (name == "lomo" || name == "adalomo") {
    read({});
    if (name == "lomo") return SgdSettings{};
    return AdafactorSettings{.scale_parameter = true};
  }
  const LionSettings lion{args.adam_beta1, args.adam_beta2};
  const AdamWSettings adamw{args.adam_beta1, args.adam_beta2, args.adam_epsilon};
  if (name.ends_with("_8bit")) {
    const EightBitStates states = eight_bit_states(read({"embedding_bits", "min_8bit_size"}));
    if (name == "lion_8bit") return Lion8bitSettings{lion, states};
    CHECK(name == "adamw_8bit", "optimizer '{}' has no settings", name);
    return AdamW8bitSettings{adamw, states};
  }
  read({});
  if (name == "lion") return lion;
  CHECK(name == "adamw", "optimizer '{}' has no settings", name);
  return adamw;
}

void refuse_given_learning_rate(const TrainingArguments& args) {
  require_no_rate("learning_rate", relative_step_of(optimizer_settings_of(args), 0).has_value());
}

}  // namespace shoehorn
