// The columns of a micro-batch: what a program may read of packed tokens (N, the axis "tokens"), of the sequences
// among them (S, "sequences"), of the tokens that a decoder beside an encoder reads (M, "decoder_tokens"),
// and of their labels. Every sequence has its tokens on both axes of tokens. A model asks for columns
// (ModelBuilder::input), the packer of data/batch.h fills those that were asked for, and whatever stands
// between goes through the table.
//
// A new column is a row here, and code that fills it in data/batch.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "data/sample_source.h"

namespace shoehorn {

// What a column has one element for. Each axis has a run-time count.
enum class BatchAxis : uint8_t { kTokens, kSequences, kDecoderTokens };
inline constexpr std::array<BatchAxis, 3> kBatchAxes = {BatchAxis::kTokens, BatchAxis::kSequences,
                                                        BatchAxis::kDecoderTokens};

std::string_view batch_axis_name(BatchAxis axis);
inline bool counts_tokens(BatchAxis axis) {
  return axis != BatchAxis::kSequences;
}
inline BatchAxis axis_of(TokenStream stream) {
  return stream == TokenStream::kInput ? BatchAxis::kTokens : BatchAxis::kDecoderTokens;
}

// The number of token slots is a multiple of this. The slots behind the last sequence are padding.
inline constexpr int64_t kTokenMultiple = 16;

// The largest counts that a micro-batch can have.
struct BatchCapacity {
  int64_t tokens = 0;  // a multiple of the packer's token multiple
  int64_t sequences = 0;
  int64_t longest_sequence = 0;
  int64_t decoder_tokens = 0;  // 0: samples have none
  int64_t longest_decoder_sequence = 0;

  int64_t of(BatchAxis axis) const;
  // Tokens of a sequence, on an axis of tokens.
  int64_t longest(BatchAxis axis) const;
};

enum class BatchColumn : uint8_t {
  kInputIds,
  kTokenTypeIds,
  kPositionIds,       // position in the sequence
  kTokenSample,       // index of the sample in the effective batch (all micro-batches of an update)
  kSequenceStart,     // slot of the sequence's first token
  kSequenceLength,    // number of real tokens
  kSequenceSample,    // index of the sample in the effective batch
  kSequencePosition,  // position of the token that stands for the sequence: 0
  kClassLabels,       // a class, or kIgnoredLabel for none
  kValueLabels,       // a row of numbers; the input that reads the column gives its width
  kTokenLabels,       // a class for each token, or kIgnoredLabel
  // The same of the decoder's tokens.
  kDecoderInputIds,
  kDecoderPositionIds,
  kDecoderTokenSample,
  kDecoderSequenceStart,
  kDecoderSequenceLength,
  kDecoderTokenLabels,
};
inline constexpr size_t kBatchColumns = 17;

struct BatchColumnInfo {
  std::string_view name;
  DType dtype;
  BatchAxis axis;
  bool has_rows = false;  // each element of the axis has a row of values
  // For a column of tokens: the column of sequences that has its values for their first tokens.
  std::optional<BatchColumn> of_first_tokens = {};
};

const BatchColumnInfo& batch_column_info(BatchColumn column);

// The columns of an axis of tokens and of the sequences on it.
struct TokenColumns {
  BatchColumn ids;
  BatchColumn positions;
  BatchColumn sample;
  BatchColumn start;   // of sequences
  BatchColumn length;  // of sequences
  BatchColumn labels;
};
const TokenColumns& token_columns(BatchAxis axis);

// Bytes of a column with rows of `width` elements for `count` of its axis.
int64_t column_bytes(BatchColumn column, int64_t count, int64_t width);

// Every column, in the order of the enumeration.
std::array<BatchColumn, kBatchColumns> batch_columns();

}  // namespace shoehorn
