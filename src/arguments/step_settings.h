// Converts TrainingArguments into the options that programs are built from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "passes/step_options.h"

namespace shoehorn {

// UserError if a kwarg is unknown or out of range, or a recompute set's file is not one.
StepOptions step_options_of(const TrainingArguments& args);

// activation_budget; nullopt where there is none. UserError for what is no fraction and no number of bytes, and together with
// gradient checkpointing or a recompute set.
std::optional<ActivationBudget> activation_budget_of(const TrainingArguments& args);

// The weight decay of the parameters whose names `matches` accepts. The first matching group counts.
struct ParameterGroup {
  std::function<bool(const std::string& name)> matches;
  float weight_decay = 0;
};

// StepOptions::decay_of for custom groups; unset if there are none. A parameter in no group keeps its
// standard decay.
std::function<float(const std::string& name, float standard)> decay_of_groups(
    std::vector<ParameterGroup> groups);

}  // namespace shoehorn
