// The optimizer's step: appended to the program in which the gradients are complete.
//
//   update              gradients ──► sum_of_squares ──► clip_coefficient ──► one update a weight, at the end
//                       with a loss scale also ──► found_inf, which can skip each update, and the new scale
//                       Adafactor's of sharded weights ──► adafactor_sums ──► all_reduce ──► the update
//   update_in_backward  moves each update directly behind the node that completes its gradient, which then dies
//   fuse_update         joins the updates at the end of the program into one multi-tensor node
//
// update_in_backward is allowed only if no update waits for a global scalar: without clipping by the global
// norm. All three are exact: the same arithmetic on each element, at another time.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void update(ProgramFamily& family, const StepOptions& options);
void update_in_backward(ProgramFamily& family, const StepOptions& options);
void fuse_update(ProgramFamily& family, const StepOptions& options);

// Sets the weight decay of each parameter: 0 for biases and norms, as in the Trainer; or as options.decay_of
// says.
void assign_weight_decay(StateTable& state, const StepOptions& options);

}  // namespace shoehorn
