// The null backend: plans programs for a machine that is not here, and runs nothing.
//
// Workspace is a stated bound instead of what a library on this machine asks for: what the CPU's kernels take
// at most, from the shapes and the number of threads alone. A test holds the CPU's kernels to it
// (tests/absent_machine_test.cc).
#pragma once

#include <memory>

#include "exec/backend/backend.h"

namespace shoehorn {

std::unique_ptr<Backend> make_null_backend(OtherMachine machine = {});

}  // namespace shoehorn
