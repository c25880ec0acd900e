// Opens the ranks of a run that MPI started: `mpirun -n N shoehorn train …`, or `shoehorn launch`, which calls mpirun.
#pragma once

#include <memory>
#include <string>

#include "ranks/communicator.h"
#include "ranks/launched_rank.h"

namespace shoehorn {

// The communicator of all ranks of `launched`. Once a process. Rank, size and hosts are known; messages have been sent
// both ways, so that MPI holds what it will hold. UserError: there is no library for MPI (with what to install), or the
// ranks are another MPI's.
std::shared_ptr<Communicator> open_ranks(const LaunchedRank& launched, double timeout_seconds);

// MPICH's mpiexec ends the others of a rank that has failed, and returns its exit code, only where all have started MPI (others
// wait for one that has not) and the rank says so (4.2.1 can lose the code of one that just ends). So a rank that has an error to
// say before open_ranks() joins the others, and behind it ends them. Both do nothing with another MPI, whose mpirun sees to it.
void join_ranks();
void end_ranks(int exit_code);

// "host-a": this machine's name.
std::string host_name();

}  // namespace shoehorn
