// From TrainingArguments to what the programs are built from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "passes/step_options.h"

namespace shoehorn {

// UserError for kwargs that are unknown or out of range.
StepOptions step_options_of(const TrainingArguments& args);

// Parameters whose name `matches` says yes to get this weight decay; the first group that matches counts.
struct ParameterGroup {
  std::function<bool(const std::string& name)> matches;
  float weight_decay = 0;
};

// StepOptions::decay_of for own groups; unset for none. A parameter of no group keeps its standard decay.
std::function<float(const std::string& name, float standard)> decay_of_groups(
    std::vector<ParameterGroup> groups);

}  // namespace shoehorn
