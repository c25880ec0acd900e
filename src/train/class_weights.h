// --class_weights: how much each class counts in the loss.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/dataset.h"
#include "model/task.h"

namespace shoehorn {

// The weights that the arguments ask for, one for each class of the task; none if they ask for none. `train`: the
// training data, which "balanced" counts (data/class_weights.h); null or empty: there are none. UserError: a task whose
// texts have no classes, classes that it does not have, numbers that are negative, not finite, too few or too many, or
// all 0; balanced without training data.
std::vector<float> class_weights_of(const TrainingArguments& args, const Task& task, const Dataset* train);

// "Class weights: negative 0.75, positive 1.5\n"; nothing without weights.
std::string format_class_weights(std::span<const float> weights, std::span<const std::string> names);

}  // namespace shoehorn
