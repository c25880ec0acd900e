// The null backend: plans programs for a machine that is not here, and runs nothing.
//
// Workspace is a stated bound instead of what a library on this machine asks for: what the CPU kernels
// declare at most, from the shapes alone.
#pragma once

#include <memory>

#include "plan/backend.h"

namespace shoehorn {

std::unique_ptr<Backend> make_null_backend();

}  // namespace shoehorn
