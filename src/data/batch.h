// Micro-batches: samples packed end to end into columns (data/batch_table.h). The caller owns their memory.
//
// S sequences with N token slots between them. A sample is a sequence, or one for each of its documents.
// Packed, it takes as many slots as it has tokens; with pad_to_max_length, exactly that many. Then come pad
// slots up to a multiple of token_multiple. Where samples have tokens for a decoder, their M slots are laid
// out in the same way.
//
//   slot of …                  input_ids  token_type_ids  position_ids      token_sample  token_labels
//   a token                    its id     its type        0, 1, 2, …        its sample    its label
//   the padding of a sample    pad id     0               goes on counting  its sample    -100
//   the padding after all      pad id     0               0                 0             -100
//
// Where samples have several documents all positions of padding are 0. Where labels are next tokens a token has the
// label of the one behind it in its document, and the last token of a document -100.
// Sequence s lies at slots sequence_start[s] … + sequence_length[s], its real tokens. The column "sample" numbers
// sequences over the effective batch (all micro-batches of an accumulation window): the coordinate of their
// dropout masks. Slots and sequences beyond the counts are not written.
//
// The functions allocate nothing, and are thread-safe for distinct micro-batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "data/batch_table.h"
#include "data/dataset.h"
#include "data/window_schedule.h"

namespace shoehorn {

struct BatchOptions {
  int64_t micro_batch_size = 8;  // per_device_train_batch_size
  int64_t gradient_accumulation_steps = 1;
  std::vector<RampStage> ramp = {};         // micro-batches per window grow: window_schedule.h
  bool drop_last = false;                   // leave out an incomplete last micro-batch of an epoch
  int64_t token_multiple = kTokenMultiple;  // tokens_padded is a multiple of this
  int64_t pad_to_max_length = 0;            // above 0: slots that each sample takes; 0: packed
  int64_t pad_decoder_to_max_length = 0;    // the same of the decoder's tokens
  // Windows are those of all ranks: gradient_accumulation_steps and the ramp count micro-batches of all of them, which
  // are dealt in turn.
  int32_t rank = 0;
  int32_t world_size = 1;
  // Every rank runs as many micro-batches of a window, for they exchange something within each: some run another's at the
  // end.
  bool deals_evenly = false;
  // The loss of a rank is the mean over the targets of its own micro-batches, not of all ranks'.
  bool divides_by_own_targets = false;
  int32_t pad_token_id = 0;
};

// What any micro-batch of the data set fits into, whatever the order: its longest samples together.
// UserError: an option out of range, a sample longer than it is to be padded to. Allocates a temporary of a few bytes
// for each sample of a micro-batch.
BatchCapacity micro_batch_capacity(const Dataset& dataset, const BatchOptions& options);

// How much of a micro-batch's columns is in use.
struct BatchCounts {
  int64_t tokens = 0;         // real tokens
  int64_t tokens_padded = 0;  // slots in use
  int64_t sequences = 0;
  int64_t decoder_tokens = 0;
  int64_t decoder_tokens_padded = 0;
};

// One micro-batch in the caller's memory. A column without memory is not filled.
class MicroBatch : public BatchCounts {
 public:
  bool has(BatchColumn column) const { return !bytes(column).empty(); }
  std::span<std::byte> bytes(BatchColumn column) const { return columns_[static_cast<size_t>(column)]; }
  // The elements of a column: `ints` of int32, `floats` of float32.
  std::span<int32_t> ints(BatchColumn column) const { return elements<int32_t>(column, DType::kI32); }
  std::span<float> floats(BatchColumn column) const { return elements<float>(column, DType::kF32); }
  // Elements per row of the column.
  int64_t width(BatchColumn column) const { return widths_[static_cast<size_t>(column)]; }
  // `memory` holds whole rows of `width` elements and is aligned for the element type.
  void set(BatchColumn column, std::span<std::byte> memory, int64_t width = 1) {
    columns_[static_cast<size_t>(column)] = memory;
    widths_[static_cast<size_t>(column)] = width;
  }

  const BatchCounts& counts() const { return *this; }
  void set_counts(const BatchCounts& counts) { static_cast<BatchCounts&>(*this) = counts; }
  // The run-time count of an axis.
  int64_t count(BatchAxis axis) const {
    if (axis == BatchAxis::kSequences) return sequences;
    return axis == BatchAxis::kTokens ? tokens_padded : decoder_tokens_padded;
  }

 private:
  template <typename Element>
  std::span<Element> elements(BatchColumn column, DType dtype) const {
    CHECK(batch_column_info(column).dtype == dtype, "column {} read as {}", batch_column_info(column).name,
          dtype_name(dtype));
    const std::span<std::byte> memory = bytes(column);
    return {reinterpret_cast<Element*>(memory.data()), memory.size() / sizeof(Element)};
  }

  std::array<std::span<std::byte>, kBatchColumns> columns_;
  std::array<int64_t, kBatchColumns> widths_{};
};

// Memory for one micro-batch with every column that a data set with such labels can fill: its size, and the
// columns laid out in it (each 64-byte aligned if the memory is).
int64_t micro_batch_bytes(const BatchCapacity& capacity, LabelShape labels);
MicroBatch lay_out_micro_batch(std::span<std::byte> memory, const BatchCapacity& capacity, LabelShape labels);

// Fills the columns that `batch` has, and its counts. Labels of a data set without any are kIgnoredLabel, values 0.
// `first_sequence`: number of the first sequence of samples[0] in the effective batch. CHECKs that the columns have
// room, and that their labels are of the data set's kind and width.
void pack_micro_batch(const Dataset& dataset, std::span<const int64_t> samples, int64_t first_sequence,
                      const BatchOptions& options, MicroBatch& batch);

// Copies the columns of `destination` as far as they are in use, and the counts. CHECKs that `source` has the
// columns.
void copy_micro_batch(const MicroBatch& source, MicroBatch& destination);

}  // namespace shoehorn
