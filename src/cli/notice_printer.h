// What a run says of itself besides its result.
#pragma once

#include <functional>
#include <string>

#include "arguments/training_arguments.h"

namespace shoehorn {

// Prints lines to standard output, or with --json, whose result is there, to standard error; empty with a log_level
// that leaves notices out.
std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args);

}  // namespace shoehorn
