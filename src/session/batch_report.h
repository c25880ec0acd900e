// What the batch of a run amounts to: the arithmetic of the effective batch and of the learning rate that
// goes with it. Returns text; prints nothing.
#pragma once

#include <string>

#include "arguments/training_arguments.h"
#include "data/training_steps.h"

namespace shoehorn {

// "Effective batch 16 = 4 a device x 4 accumulation steps; 230 steps an epoch, 690 in all", where scaled the
// learning rate and what it was made of, and a warning where an epoch has so few steps that the batch is
// likely too large.
std::string format_batch(const TrainingArguments& args, const TrainingSteps& steps);

}  // namespace shoehorn
