// What the command eval does, and train without training.
#pragma once

#include "arguments/argument_table.h"

namespace shoehorn {

// Evaluates the model that the arguments name on their validation_file: prints its metrics and writes them into
// output_dir. Returns the exit code.
int evaluate_model(const ParsedArguments& parsed);

}  // namespace shoehorn
