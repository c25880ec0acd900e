// The command `eval`; `train` with do_train false runs it too.
#pragma once

#include "arguments/argument_table.h"

namespace shoehorn {

// Evaluates the model that the arguments name on their validation_file. Prints the metrics and writes them to
// output_dir. Returns the exit code.
int evaluate_model(const ParsedArguments& parsed);

}  // namespace shoehorn
