// The null backend: plans programs for a machine that is not this one, and runs nothing.
//
// Its workspaces are an upper bound of what the CPU's kernels need, computed from shapes and the number of
// threads instead of asking a library. A test compares the CPU's kernels with it
// (tests/absent_machine_test.cc).
#pragma once

#include <memory>

#include "exec/backend/backend.h"

namespace shoehorn {

std::unique_ptr<Backend> make_null_backend(OtherMachine machine = {});

}  // namespace shoehorn
