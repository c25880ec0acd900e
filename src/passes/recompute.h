// Activation checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016).
//
//   before   forward:   every layer keeps what its backward reads
//            backward:  reads it
//   after    forward:   a group of n layers keeps its input
//            backward:  runs the group again, then reads it
//
// `recompute` clones the forward nodes of each group of `every_n_layers` layers, directly before the group's
// backward. It clones only what the backward reads, reads what is alive anyway (the next group's input) in
// place, and skips the last group, whose backward follows at once. It leaves head and embeddings alone.
// `rematerialize` recomputes single outputs instead: those that are cheap to compute from values that the
// backward reads anyway, or from other such outputs (activation functions, norms, dropout, embeddings); and
// those of a recompute set (passes/recompute_set.h), by running the nodes that made them again, back to what is kept.
// What is made again stands directly before what reads it first. Where weights are gathered for each use (passes/zero.h,
// stage 3), an output that would take a table once more is kept.
//
// Exact: clones call the same kernel on the same inputs, and dropout masks are counter-based. Memory: the
// activations of one group at a time. Time: at most one more forward (a third of a step).
#pragma once

#include <set>
#include <string>

#include "passes/program_family.h"

namespace shoehorn {

// Layers per group; 0 if nothing is recomputed.
int64_t layers_of_a_group(const Program& program, const StepOptions& options);

void recompute(ProgramFamily& family, const StepOptions& options);
void rematerialize(ProgramFamily& family, const StepOptions& options);

// What `rematerialize` does to one program of such a step, with this set and not that of the options.
void make_values_again(Program& program, const std::set<std::string>& recompute_set,
                       const StepOptions& options);

// The set that recomputes what `recompute` does: of each group of layers but the last what the backward reads and no other
// group does.
std::set<std::string> recompute_set_of_groups(const Program& program, int64_t every_n_layers);

}  // namespace shoehorn
