// Gradient accumulation: several micro-batches make one effective batch, with the result of the whole batch
// at once.
//
// The loss is the sum over targets divided by the number of targets in the whole effective batch, which is
// known before the first micro-batch. So micro-batches simply add: loss and gradients accumulate in place,
// micro-batch by micro-batch.
//
// micro-batch order: one program per micro-batch, called in turn; nothing is unrolled. Gradients are
// persistent storages, and so are the casts of weights that the first micro-batch makes.
//
//   micro_batch_first: gradient = …      micro_batch_next: gradient += …      update
//
// layer order: one program in which all micro-batches pass a layer before the next layer, forward and
// backward. A layer's gradients then live for that layer only (update_in_backward uses them at once). If the
// last window is short, the absent micro-batches have counts of zero.
//
//   before   f1 f2 | b2 b1                    after   f1¹ f1² (f2 b2)¹ (f2 b2)² b1¹ b1²
//
// With one micro-batch per step the pass only binds the loss. Exact with one micro-batch; otherwise the sums
// round differently.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void accumulate(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
