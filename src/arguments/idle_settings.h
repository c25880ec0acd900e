// Settings of a run that nothing reads, given what else is set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// A line for people on each setting of `train` that the user has set and that has no effect, with the setting that makes
// it so: "save_steps has no effect: save_strategy is no". `evaluates`: the run has samples to evaluate on, and does.
// `task`: that of the run, which the model decides where the user does not.
std::vector<std::string> notices_of_idle_settings(const ParsedArguments& parsed, bool evaluates,
                                                  std::string_view task);

}  // namespace shoehorn
