// Gradient accumulation: an effective batch of several micro-batches, equal to the whole batch taken at once.
//
// The loss is a sum over targets divided by the number of targets in the whole effective batch (known before
// its first micro-batch), so micro-batches simply add: loss and gradients accumulate in place, in the order
// of the micro-batches.
//
// micro-batch order: one program a micro-batch, called in turn; never unrolled. Gradients are persistent.
//
//   micro_batch_first: gradient = …      micro_batch_next: gradient += …      update
//
// What the first micro-batch casts of the weights is persistent with them.
//
// layer order: all micro-batches pass a layer before the next layer, forward and backward, in one program, so
// that a layer's gradients live for that layer alone (and are used there at once under update_in_backward). A
// micro-batch that is absent from a short last window has counts of zero.
//
//   before   f1 f2 | b2 b1                    after   f1¹ f1² (f2 b2)¹ (f2 b2)² b1¹ b1²
//
// With one micro-batch a step there is nothing to do but to bind the loss.
// Exact with one micro-batch; else rounding of the sums.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void accumulate(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
