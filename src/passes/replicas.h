// DataParallel, as PyTorch's torch.nn.DataParallel does it: the first rank has the batch, the weights that count, their
// gradients and the optimizer; the others compute for it. Slower than data_parallel.h, for weights go around in every step besides
// gradients and nothing runs beside the computation; here to compare them.
//
//   host        batches of the others ─► each rank        1 scatter (train/batch_scatter.h)
//   replicate   weights ─► all                            2 broadcast, a program of its own in front of each forward
//   train_step  forward
//               losses ─► first; the sum ─► all           3 reduce, 4 broadcast: no backward begins before
//               backward
//               gradients ─► first                        5 reduce
//               update                                       on the first rank alone
//
// The pass adds the program of kind kReplicate and the three exchanges of the step. Ranks that do not update have no gradients to
// update with and no optimizer states. All is sent along a chain of the ranks (exec/cpu/collectives/chain_collectives.h) in
// pieces of at most `bucket_bytes`, of 4 MiB at most.
//
// Memory: a piece; the first rank has the states, too. Each rank but the first sends the gradients' bytes in fp32, each but the last
// the weights'. Rounding only: sums are taken along the chain, on two ranks with the bits of data_parallel.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void replicas(ProgramFamily& family, const StepOptions& options);

// UserError that names what does not go with it.
void check_replicas(const StepOptions& options);

}  // namespace shoehorn
