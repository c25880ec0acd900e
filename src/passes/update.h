// The optimizer's step, in the program in which the gradients are complete.
//
//   update              gradients ──► sum_of_squares ──► clip_coefficient ──► one update a weight, at the end
//                       with a loss scale also ──► found_inf, which each update waits for, and the new scale
//   update_in_backward  each update moves right behind the node that completes its gradient, which dies there
//   fuse_update         the updates that stand at the end become one multi-tensor node
//
// update_in_backward is legal only where no update waits for a global scalar: without clipping by the global
// norm. All exact: the same arithmetic on each element, at another time.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void update(ProgramFamily& family, const StepOptions& options);
void update_in_backward(ProgramFamily& family, const StepOptions& options);
void fuse_update(ProgramFamily& family, const StepOptions& options);

// Two parameter groups, weight_decay 0 for biases and norms; or the options' own.
void assign_weight_decay(StateTable& state, const StepOptions& options);

}  // namespace shoehorn
