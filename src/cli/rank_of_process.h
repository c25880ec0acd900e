// What the program does otherwise where mpirun started it as one of several ranks: it refuses commands that are for one
// process, and names the rank in front of an error.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "arguments/argument_table.h"
#include "base/stop_request.h"
#include "exec/backend/thread_count.h"
#include "lab/error_report.h"
#include "ranks/communicator.h"
#include "ranks/launched_rank.h"

namespace shoehorn {

// The commands that several ranks run together.
inline constexpr std::array<std::string_view, 5> kCommandsOnRanks = {"train", "eval", "predict", "topo",
                                                                     "bench step"};

// The number of ranks that were started; 1 where there is one. UserError as launched_rank().
int64_t launched_ranks();

// UserError if this process is one of several ranks and the command does not run on ranks.
void check_runs_on_ranks(std::string_view command);

// As open_ranks(), over the link of launched_pace(), or those that are open already. The process keeps them to its end: they tell
// each other of a failure (print_error).
std::shared_ptr<Communicator> open_ranks_of_process(const LaunchedRank& launched, double timeout_seconds);

// The ranks that run a command with arguments of training; null where there is one. Completes the arguments: how many ranks a host has, and what
// others than the first rank show. `search`: of `train --fit`, that it is one and its flags. UserError if world_size or
// ranks_per_host is another number, or if a rank has other arguments (train/rank_facts.h).
std::shared_ptr<Communicator> open_ranks_of(TrainingArguments& args, const std::string& search = {});

// True of one process, and of the first of several ranks, which writes the files.
bool is_main_rank(const std::shared_ptr<Communicator>& ranks);

// Sets the number of threads, of a rank its share of the processors, to which it is bound if the arguments say so; the first rank
// shows how all are bound.
ThreadCount use_processors(const TrainingArguments& args, const std::shared_ptr<Communicator>& ranks);

// From now on signals stop the work, of ranks below `shoehorn launch` its own, too.
StopSignals stop_signals_of_process();

// Whether `shoehorn launch` started this process, be it as the only rank: a restart may have one.
bool has_launcher();

// The exit code of a process that did its work with `exit_code`: 0 of a rank that finished with the others because of a stop
// below `shoehorn launch`, which has the stop's code itself (ranks/rank_launcher.h).
int exit_code_of_rank(int exit_code);

// Of a rank that ends with this exit code: the first tells its launcher of success, and a failure ends the others where mpirun
// does not (end_ranks). Nothing for one process.
void end_rank_of_process(int exit_code);

// Prints an error, from a rank with its name and host. One rank prints (Communicator::may_say_its_failure): of a user's mistake
// the first rank has some seconds to make it, too, since all make those of their common arguments, unless it waits for this one.
// mpirun ends the others then.
void print_error(const ErrorReport& report);

}  // namespace shoehorn
