// Configurations of other trainers that stand beside the flags: --deepspeed, --fsdp and --fsdp_config. What they say becomes
// arguments, and their own members are emptied: training_args.json then has all that they said, and needs no such file.
//
// A setting of a file holds where no flag says it. Where a flag says something else it is a mismatch: all of them are one
// UserError, as in transformers' Trainer.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/training_arguments.h"

namespace shoehorn {

// True if a flag (by the name of its row) was given beside the configurations.
using IsGiven = std::function<bool(std::string_view flag)>;

struct NeighbourSettings {
  std::vector<std::string> flags;    // that the configurations set
  std::vector<std::string> notices;  // a line each: what they say that has no effect here
};

// Reads the files that `args` names. `args.world_size` is the number of ranks. UserError as above, and for a file that does
// not exist, or says what is unknown or refused; SystemError if it cannot be read.
NeighbourSettings apply_neighbour_configs(TrainingArguments& args, const IsGiven& is_given);

// The same for arguments that a program set: what differs from its default counts as given.
TrainingArguments with_neighbour_configs(TrainingArguments args);

}  // namespace shoehorn
