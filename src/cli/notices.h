// Where a command prints what a run says of itself.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "train/training_arguments.h"

namespace shoehorn {

// Prints each line to `text`; unset where --log_level hides notices.
std::function<void(const std::string& line)> notices_to(std::FILE* text, const TrainingArguments& args);

}  // namespace shoehorn
