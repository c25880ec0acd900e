// Which ranks run on the same processors.
#pragma once

#include <cstdint>

#include "ranks/communicator.h"

namespace shoehorn {

// The number of ranks, this one included, that run where this one does: on its host, with its CPU affinity. A launcher that
// binds ranks (mpirun --bind-to) gives each its own processors. All ranks call it.
int64_t ranks_on_own_processors(Communicator& ranks);

}  // namespace shoehorn
