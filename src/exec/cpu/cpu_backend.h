// The CPU backend: kernels of this folder on one OpenMP team, products by oneDNN.
#pragma once

#include <memory>

#include "exec/backend/backend.h"

namespace shoehorn {

// For a team of `threads` threads (0: OpenMP's default for this machine). Sets the team's size for the
// process.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace shoehorn
