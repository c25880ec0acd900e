// Data parallel: N ranks hold the same weights and each runs other micro-batches of the effective batch (Li et al.,
// "PyTorch Distributed", 2020). Gradients and the loss are summed over the ranks once a step, when they are complete;
// each rank then makes the same update. Nothing is exchanged in the micro-batches before the last.
//
//   backward: … g_L …… g_1 ──► update     ─►     … g_L … all_reduce(g_L, g_L-1) … g_1 ─► all_reduce(g_1, loss) ─► update
//
// Gradients that become complete one after the other share a bucket of `bucket_bytes` (ddp_bucket_cap_mb), whose
// all_reduce stands behind the last of them in the backward: of the step where it is one program, of its last micro-batch
// (micro_batch_last) where each has a run of its own. A rank that has one micro-batch only, as at the end of an epoch, or where
// others have one more, makes the same exchanges behind it (exchange). With sharded weights they stand in the program `update` then. A
// gradient larger than a bucket is one of its own, and goes around in pieces. Towards the end of the layers, behind which
// nothing hides messages, a bucket has at most half of what is left of them, down to messages of 256 KiB. In layer-major order
// a bucket ends with its layer: the next one's gradients are complete a whole layer later.
//
// In the backward the all_reduce stands on a lane of its own, beside what lane 0 computes meanwhile; the update waits
// for it. Where gradients are scattered and freed (ZeRO's stage 2) a `wait` in front of each bucket's exchange waits for the one
// before it.
//
// Safe because losses divide by the targets of the whole effective batch, whichever rank counts them, so that gradients
// simply add up; the norm for clipping, and the gradients that a loss scale looks at, are the summed ones. Memory: two
// pieces of bucket_bytes / N, of 4 MiB at most; those that are used beside the backward are kept all the time. A rank sends 2 (N - 1) / N of the gradients' bytes in fp32, and
// as much for the loss, each step. Rounding only: against one rank with the same micro-batches the sums over
// micro-batches are taken in another order, the ring's (ops/ring.h).
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void data_parallel(ProgramFamily& family, const StepOptions& options);

// Of sharded weights (passes/zero.h): each gradient of the program becomes this rank's part of its sum, by buckets as above.
// Where gradients are complete the sum is over all ranks; of one micro-batch it is over the ranks of this group, and
// data_parallel sums over groups what the micro-batches add up to.
void scatter_gradients(ProgramFamily& family, Program& program, const StepOptions& options, bool is_complete);

}  // namespace shoehorn
