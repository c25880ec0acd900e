// --detect_anomaly: which op made the first number that is not one.
#pragma once

#include <span>
#include <string>

#include "exec/executor.h"

namespace shoehorn {

// Empty if every float output of the node is finite in the rows that its counts cover; else a message naming
// the op, its output, and where in the model and the step it stands.
std::string find_anomaly(const Executor& executor, ProgramId program, size_t node,
                         std::span<const int64_t> counts);

// From now on a run of `executor` ends at the first such op, with that message as a SystemError. With
// `forward_only` backward and update are not looked at.
void watch_for_anomaly(Executor& executor, bool forward_only = false);

}  // namespace shoehorn
