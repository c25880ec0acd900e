// What the program does otherwise where mpirun started it as one of several ranks: it refuses commands that are for one
// process, and names the rank in front of an error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "arguments/argument_table.h"
#include "lab/error_report.h"
#include "ranks/communicator.h"

namespace shoehorn {

// The number of ranks that were started; 1 where there is one. UserError as launched_rank().
int64_t launched_ranks();

// UserError if this process is one of several ranks and the command does not run on ranks.
void check_runs_on_ranks(std::string_view command);

// The ranks of the command train; null where there is one. Completes the arguments: world_size;
// only the first rank shows anything. UserError if world_size was given and is another.
std::shared_ptr<Communicator> open_ranks_of(const ParsedArguments& parsed, TrainingArguments& args);

// Whether `shoehorn launch` started this process.
bool has_launcher();

// The exit code of a process that did its work with `exit_code`: 0 of a rank that finished with the others because of a stop
// below `shoehorn launch`, which has the stop's code itself (ranks/rank_launcher.h).
int exit_code_of_rank(int exit_code);

// Prints an error, from a rank with its name and host. The first rank has a moment to print it alone, since all make the
// mistakes of their common arguments; mpirun ends the others then.
void print_error(const ErrorReport& report);

}  // namespace shoehorn
