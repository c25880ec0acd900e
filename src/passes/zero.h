// ZeRO: N data-parallel ranks share what each of them would hold alike (Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", 2020; PyTorch's FSDP). A parameter is cut into N parts; a
// rank has one part of each, its shard, and updates it. Stage 1 shards optimizer states and masters; stage 2
// gradients, too; stage 3 weights, too.
//
//   shard_weights   before gradients are summed: weights become shards, and with stage 2 and micro-batch
//                   accumulation the gradients of each micro-batch
//   gather_weights  stage 3: before a layer, forward or backward, all_gather makes its weights whole, issued
//                   zero_prefetch_layers earlier on a lane of its own; they are freed behind their last reader. What
//                   would be gathered again by then stays whole: the last layer between forward and backward, and
//                   layer by layer what all micro-batches read in turns (DeepSpeed's stage3_max_reuse_distance). Of what
//                   products read as a cast (fp16) the cast goes around, made of the shard each time
//   gather_updated  behind the update: weights that stay whole from step to step (stages 1 and 2, and small ones)
//                   are gathered anew; a program kAfterLoad does it behind a load
//
//   stage 1, 2:  W ─► forward, backward ─► g ─► reduce_scatter ─► update of W's shard ─► all_gather ─► W
//   stage 3:     shard ─► all_gather ─► a layer's forward … all_gather ─► its backward ─► reduce_scatter ─► update
//
// What goes between shards and whole tensors is half a ring each (ops/ring.h). In a step a rank sends (N - 1) / N of
// the gradients' bytes and, in stages 1 and 2, (N - 1) / N of the weights', together what data parallel sends in
// fp32. Stage 3 sends the weights of a layer at most twice for a micro-batch, in its forward and in its backward, and in
// layer-major order as often for all micro-batches.
//
// With zero_group_size only ranks in a row share, and each group has everything (PyTorch's HYBRID_SHARD): what goes between
// shards and whole tensors stays within a group, and the parts of gradients are then added up over the groups, between the
// ranks that have the same parts, once a step.
//
// Adafactor's updates also read sums over whole parameters (ops/adafactor_sums.h), which go around in double in front of
// them: of a matrix of C columns 2C + 2 numbers at most. Its moments of columns are whole on each rank.
//
// Sums are those of all_reduce, bit for bit, and an element's update is the same wherever it is made. Three things
// round elsewhere: the norm for clipping is a sum over ranks of sums over shards; Adafactor's sums are, too; and stages 2
// and 3 under micro-batch accumulation sum each micro-batch over ranks before they add it to the others. Memory: an N-th
// of what is sharded, with padding of less than an element a parameter (8-bit states: less than a block; Adafactor: less
// than a row); in stages 1 and 2 the shard of each weight beside the whole.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void shard_weights(ProgramFamily& family, const StepOptions& options);
void gather_weights(ProgramFamily& family, const StepOptions& options);
void gather_updated(ProgramFamily& family, const StepOptions& options);

// Of the storage that the model reads; null where it is not sharded.
const ShardedStorage* find_shard(const ProgramFamily& family, StorageId whole);

// UserError for groups that the ranks cannot be split into.
void check_zero(const StepOptions& options);

// Whether the gradients are this rank's parts already.
bool has_scattered_gradients(const ProgramFamily& family);

}  // namespace shoehorn
