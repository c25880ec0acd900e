// --num_threads of commands whose flags are their own; the others have it in the table of arguments.
#pragma once

#include "arguments/command_options.h"

namespace shoehorn {

// The table's row, without its member of TrainingArguments.
ArgumentSpec num_threads_row();

// Decides the number of threads of the process (exec/backend/thread_count.h) by --num_threads where it is given. Returns
// the number. UserError.
int use_given_threads(const CommandOptions& given);

}  // namespace shoehorn
