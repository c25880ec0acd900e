// From TrainingArguments to what the programs are built from.
#pragma once

#include "passes/step_options.h"
#include "train/training_arguments.h"

namespace shoehorn {

// UserError for kwargs that are unknown or out of range.
StepOptions step_options_of(const TrainingArguments& args);

}  // namespace shoehorn
