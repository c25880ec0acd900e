// What a program reads of a micro-batch: packed tokens, the sequences among them, labels; and the step's
// scalars.
//
// N packed tokens (count "tokens", padded up to a multiple of the batch's), S sequences (count "sequences").
#pragma once

#include "graph/program.h"

namespace shoehorn {

// The storages of one micro-batch, all int32. Those of several micro-batches exist side by side only where a
// program holds several (layer-major accumulation).
struct BatchStorages {
  StorageId input_ids;          // [N]
  StorageId token_type_ids;     // [N]
  StorageId position_ids;       // [N] place in the sequence
  StorageId token_sample;       // [N] index of the sample in the effective batch
  StorageId sequence_start;     // [S] row of the first token
  StorageId sequence_length;    // [S] real tokens
  StorageId sequence_sample;    // [S] index of the sample in the effective batch
  StorageId sequence_position;  // [S] place of the token that stands for the sequence: 0
  StorageId labels;             // [S] class, or -100 for none
};

// Scalars that the host writes before a step.
struct ScalarStorages {
  StorageId step;             // i32[1] optimizer step, from 0: selects the dropout masks
  StorageId applied_updates;  // i32[1] updates applied so far: bias correction
  StorageId learning_rate;    // f32[1]
  StorageId target_count;     // f32[1] targets in the effective batch
};

// Run-time counts of tokens are multiples of this; padding tokens fill up and belong to no sequence.
inline constexpr int64_t kTokenMultiple = 16;

struct BatchCapacity {
  int64_t tokens = 0;  // a multiple of kTokenMultiple
  int64_t sequences = 0;
  int64_t longest_sequence = 0;
};

// Every program of a family begins with these counts for each of its micro-batches, in this order.
struct BatchCounts {
  CountId tokens;
  CountId sequences;
};
inline BatchCounts batch_counts(int32_t micro_batch) {
  return {CountId{2 * micro_batch}, CountId{2 * micro_batch + 1}};
}
void add_batch_counts(Program& program, const BatchCapacity& capacity);

// `prefix` tells the storages of one family's batches apart ("" or "evaluation.").
BatchStorages add_batch_storages(StateTable& state, const BatchCapacity& capacity, int32_t micro_batch,
                                 const std::string& prefix = {});
// A persistent storage of one element.
StorageId add_scalar(StateTable& state, const std::string& name, DType dtype);
ScalarStorages add_scalar_storages(StateTable& state);

}  // namespace shoehorn
