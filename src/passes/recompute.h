// Gradient checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016).
//
//   before   forward:   every layer keeps what its backward reads
//            backward:  reads it
//   after    forward:   a group of n layers keeps its input
//            backward:  runs the group again, then reads it
//
// `recompute` clones the forward nodes of each group of `every_n_layers` layers, right before the group's
// backward. What a clone's reader does not need is not cloned (dead work is removed), what lives anyway (the
// next group's input) is read as it is, and the last group, whose backward follows at once, is not
// recomputed. `recompute` leaves head and embeddings alone. `rematerialize` does the same for outputs that
// cost little to make again from what the backward reads anyway, or from others that do: activation
// functions, norms, dropout, embeddings.
//
// Exact: clones call the identical kernel on identical inputs, dropout masks are counter-based. Memory: the
// group's activations, of one group at a time. Time: at most one more forward (a third of a step).
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// Layers of a group, 0 where nothing is recomputed.
int64_t layers_of_a_group(const Program& program, const StepOptions& options);

void recompute(ProgramFamily& family, const StepOptions& options);
void rematerialize(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
