// Which ranks run on the same processors, and how they share them.
#pragma once

#include <cstdint>
#include <string>

#include "ranks/communicator.h"

namespace shoehorn {

// The number of ranks, this one included, that run where this one does: on its host, with its CPU affinity. A launcher that
// binds ranks (mpirun --bind-to) gives each its own processors. All ranks call it.
int64_t ranks_on_own_processors(Communicator& ranks);

// Binds this process to its share of the processors that it has with other ranks: threads that it starts from now on run there.
// hwloc cuts them so that those of a share are near each other. Returns the share, as "0-3"; empty where nothing is
// bound: the rank has its own already, ranks are more than processors, the share has fewer than `least_processors`, or there is
// no hwloc. first_processor_list() stays what it was before. All ranks call it.
std::string bind_to_share(Communicator& ranks, int64_t least_processors = 1);

}  // namespace shoehorn
