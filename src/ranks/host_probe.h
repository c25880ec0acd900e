// Which hosts mpirun still reaches.
#pragma once

#include <string>
#include <vector>

#include "ranks/mpi_engine.h"

namespace shoehorn {

// A host that takes longer to run a program that does nothing is lost.
inline constexpr double kProbeSeconds = 20;

// Those of `hosts` on which the program `mpirun` cannot run another that does nothing, in their order: in the way in which it starts
// ranks, whatever its settings say of that (words_of_one_rank_on). All at once. SystemError if mpirun cannot be started, Stopped
// as run_process().
std::vector<std::string> lost_hosts(MpiEngine engine, const std::string& mpirun,
                                    const std::vector<std::string>& hosts,
                                    double limit_seconds = kProbeSeconds);

}  // namespace shoehorn
