// --detect_anomaly: finds the op that produced the first NaN or infinity.
#pragma once

#include <span>
#include <string>

#include "exec/executor.h"

namespace shoehorn {

// Empty if every float output of the node is finite in the rows that its counts cover. Otherwise a message
// naming the op, its output, and where in the model and the step it stands. `forward_only`: gradients that a node of the
// forward makes are not checked.
std::string find_anomaly(const Executor& executor, ProgramId program, size_t node,
                         std::span<const int64_t> counts, bool forward_only = false);

// From now on a run of `executor` ends at the first such op, with SystemError and that message. With
// `forward_only`, gradients and updates are not checked.
void watch_for_anomaly(Executor& executor, bool forward_only = false);

}  // namespace shoehorn
