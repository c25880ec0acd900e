// What the ranks of a run must have alike before they load anything.
#pragma once

#include <vector>

#include "arguments/training_arguments.h"
#include "ranks/agreement.h"

namespace shoehorn {

// Each argument by its flag, but for those that a rank may have for itself: threads, memory, what it says.
std::vector<SharedFact> facts_of_arguments(const TrainingArguments& args);

// UserError naming what differs: the program's file, or an argument. Before this no rank may exchange anything that an
// argument decides.
void check_arguments_alike(Communicator& ranks, const TrainingArguments& args);

}  // namespace shoehorn
