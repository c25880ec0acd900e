// Micro-batches: samples packed end to end into arrays that the caller owns.
//
// S sequences with N token slots between them. Packed, a sequence takes as many slots as it has tokens; with
// pad_to_max_length, exactly that many each. Then come pad slots up to a multiple of token_multiple.
//
//   slot of …                     input_ids  token_type_ids  position_ids      token_sample             token
//   labels a token                       its id     its type        0, 1, 2, …        its sample its label
//   the padding of a sequence     pad id     0               goes on counting  its sample               -100
//   the padding after all         pad id     0               0                 0                        -100
//
// Sequence s lies at slots sequence_start[s] … + sequence_length[s], its real tokens. A sample's number
// counts over the effective batch (all micro-batches of an accumulation window): the coordinate of its
// dropout masks. All arrays are int32, value labels float32. Slots and sequences beyond the counts are not
// written.
//
// Functions allocate nothing and are thread-safe for distinct micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/window_schedule.h"

namespace shoehorn {

struct BatchOptions {
  int64_t micro_batch_size = 8;  // per_device_train_batch_size
  int64_t gradient_accumulation_steps = 1;
  std::vector<RampStage> ramp = {};  // a number of micro-batches that grows: window_schedule.h
  bool drop_last = false;            // leave out an incomplete last micro-batch
  int64_t token_multiple = 16;       // tokens_padded is a multiple of this
  int64_t pad_to_max_length = 0;     // above 0: slots that each sequence takes; 0: packed
  int32_t pad_token_id = 0;
};

struct MicroBatchCapacity {
  int64_t tokens;     // slots, a multiple of token_multiple
  int64_t sequences;  // micro_batch_size, or the number of samples if that is smaller
};

// What any micro-batch of the data set fits into, whatever the order: its longest samples together.
// UserError: an option out of range, a sample longer than pad_to_max_length. Allocates a temporary of 4 bytes
// a sample where they differ in length.
MicroBatchCapacity micro_batch_capacity(const Dataset& dataset, const BatchOptions& options);

// One micro-batch in memory of the caller's. Of the label arrays only the data set's kind is used; others may
// be empty.
struct MicroBatch {
  std::span<int32_t> input_ids;        // N
  std::span<int32_t> token_type_ids;   // N
  std::span<int32_t> position_ids;     // N
  std::span<int32_t> token_sample;     // N
  std::span<int32_t> sequence_start;   // S
  std::span<int32_t> sequence_length;  // S
  std::span<int32_t> class_labels;     // S
  std::span<float> value_labels;       // S
  std::span<int32_t> token_labels;     // N

  int64_t tokens = 0;         // real tokens
  int64_t tokens_padded = 0;  // slots in use
  int64_t sequences = 0;
};

// Bytes of memory for one micro-batch, and the arrays laid out in such memory, each 64-byte aligned if it is.
int64_t micro_batch_bytes(const MicroBatchCapacity& capacity, LabelKind labels);
MicroBatch lay_out_micro_batch(std::span<std::byte> memory, const MicroBatchCapacity& capacity,
                               LabelKind labels);

// Fills arrays and counts of `batch`. `first_sample`: number of samples[0] in the effective batch.
void pack_micro_batch(const Dataset& dataset, std::span<const int64_t> samples, int64_t first_sample,
                      const BatchOptions& options, MicroBatch& batch);

// Copies the part in use, and the counts.
void copy_micro_batch(const MicroBatch& source, LabelKind labels, MicroBatch& destination);

}  // namespace shoehorn
