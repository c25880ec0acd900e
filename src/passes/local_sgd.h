// Local SGD: N ranks hold the same weights and train alone, each on its own micro-batches with an optimizer of its own, and
// average their weights every local_sgd_steps steps (Stich, "Local SGD Converges Fast and Communicates Little", 2019). With
// momentum over the averages it is DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language
// Models", 2023). For links that are too slow to send gradients in every step.
//
//   start ─► K steps of its own optimizer ─► w        on each rank
//   g = mean over ranks of (start - w);  m = momentum m + g;  start -= lr (g + momentum m);  w = start
//
// With lr 1 and momentum 0 the weights become their mean. DiLoCo takes lr 0.7 and momentum 0.9.
//
// The pass leaves gradients, the loss and the norm for clipping as each rank has them, and adds two programs: one of kind
// kAfterLoad, which begins at the weights that were loaded, and one of kind kOuterUpdate, which the host runs behind every
// K-th step and before whatever needs one model: an evaluation, a checkpoint, the end. Outer
// gradients go around in buckets of `bucket_bytes`, one after the other, so that those of a bucket are in memory at a time.
//
// Memory: start and, with momentum, m: 4 bytes a trained weight each, kept all the time; a bucket and its messages. A rank
// sends 2 (N - 1) / N of the trained weights' bytes in fp32 every K steps. Changes numerics: it is another algorithm than
// data parallel, but for K = 1 with plain SGD, lr 1 and momentum 0, where the mean of the weights is the update with the mean
// gradient. A run is bit-identical to itself on as many ranks.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void local_sgd(ProgramFamily& family, const StepOptions& options);

// UserError that names what does not go with it.
void check_local_sgd(const StepOptions& options);

// The momentum of a weight storage lies in "<its name>.outer_momentum".
inline constexpr std::string_view kOuterMomentum = "outer_momentum";

}  // namespace shoehorn
