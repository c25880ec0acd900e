// What the ranks of a run must have alike before they load anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "ranks/agreement.h"
#include "session/session.h"

namespace shoehorn {

// Each argument by its flag, but for those that a rank may have for itself: threads, memory, what it says.
std::vector<SharedFact> facts_of_arguments(const TrainingArguments& args);

// UserError naming what differs: the program's file, an argument, or the search that comes before the run (`train --fit` and its flags;
// empty: none). Before this no rank may exchange anything that an argument decides.
void check_arguments_alike(Communicator& ranks, const TrainingArguments& args,
                           const std::string& search = {});

// The programs, and the weights that they begin with: those of a directory, and adapters of another; empty: none.
std::vector<SharedFact> facts_of_model(const Session& session, const std::filesystem::path& weights,
                                       const std::filesystem::path& adapter);

}  // namespace shoehorn
