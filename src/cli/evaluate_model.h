// The command `eval`; `train` with do_train false runs it too.
#pragma once

#include <memory>

#include "arguments/argument_table.h"
#include "ranks/communicator.h"

namespace shoehorn {

// Evaluates the model that the arguments name on their validation_file. Prints the metrics and writes them to
// output_dir. Returns the exit code. `args`: those of `parsed`, completed for the ranks (null: one process), which have their
// threads.
int evaluate_model(const ParsedArguments& parsed, TrainingArguments args,
                   const std::shared_ptr<Communicator>& ranks);

}  // namespace shoehorn
