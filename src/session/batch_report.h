// Describes the batch of a run: how the effective batch comes about, and the learning rate that goes with it.
// Returns text; prints nothing.
#pragma once

#include <string>

#include "arguments/training_arguments.h"
#include "data/training_steps.h"

namespace shoehorn {

// "Effective batch 16 = 4 a device x 4 accumulation steps; 230 steps an epoch, 690 in all"; the learning rate
// and its factors if it is scaled; and a warning if an epoch has so few steps that the batch is probably too
// large.
std::string format_batch(const TrainingArguments& args, const TrainingSteps& steps);

}  // namespace shoehorn
