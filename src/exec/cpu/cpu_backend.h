// The CPU backend: the kernels in this folder on one OpenMP team; matrix products by oneDNN.
#pragma once

#include <memory>

#include "exec/backend/backend.h"
#include "ranks/communicator.h"

namespace shoehorn {

// `threads` is the size of the OpenMP team (0: exec/backend/thread_count.h decides). It is set for the whole process.
// `ranks`: those that the programs' collectives go to; null: programs are for one rank.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0, std::shared_ptr<Communicator> ranks = {});

}  // namespace shoehorn
