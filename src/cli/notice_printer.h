// Prints the notices of a run, besides its result.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "arguments/training_arguments.h"

namespace shoehorn {

// A function that prints lines to standard output; with --json, to standard error, since the result is on
// standard output. Empty if log_level leaves notices out.
std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args);
// The same to `file`.
std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args, std::FILE* file);

}  // namespace shoehorn
