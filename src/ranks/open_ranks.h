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

// "host-a": this machine's name.
std::string host_name();

}  // namespace shoehorn
