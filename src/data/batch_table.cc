#include "data/batch_table.h"

#include "base/error.h"

namespace shoehorn {

namespace {

constexpr std::array<BatchColumnInfo, kBatchColumns> kTable = {{
    {"input_ids", DType::kI32, BatchAxis::kTokens},
    {"token_type_ids", DType::kI32, BatchAxis::kTokens},
    {"position_ids", DType::kI32, BatchAxis::kTokens, false, BatchColumn::kSequencePosition},
    {"token_sample", DType::kI32, BatchAxis::kTokens, false, BatchColumn::kSequenceSample},
    {"sequence_start", DType::kI32, BatchAxis::kSequences},
    {"sequence_length", DType::kI32, BatchAxis::kSequences},
    {"sequence_sample", DType::kI32, BatchAxis::kSequences},
    {"sequence_position", DType::kI32, BatchAxis::kSequences},
    {"class_labels", DType::kI32, BatchAxis::kSequences},
    {"value_labels", DType::kF32, BatchAxis::kSequences, true},
    {"token_labels", DType::kI32, BatchAxis::kTokens},
    {"decoder_input_ids", DType::kI32, BatchAxis::kDecoderTokens},
    {"decoder_position_ids", DType::kI32, BatchAxis::kDecoderTokens},
    {"decoder_token_sample", DType::kI32, BatchAxis::kDecoderTokens},
    {"decoder_sequence_start", DType::kI32, BatchAxis::kSequences},
    {"decoder_sequence_length", DType::kI32, BatchAxis::kSequences},
    {"decoder_token_labels", DType::kI32, BatchAxis::kDecoderTokens},
}};

constexpr TokenColumns kTokenColumns = {BatchColumn::kInputIds,       BatchColumn::kPositionIds,
                                        BatchColumn::kTokenSample,    BatchColumn::kSequenceStart,
                                        BatchColumn::kSequenceLength, BatchColumn::kTokenLabels};
constexpr TokenColumns kDecoderColumns = {
    BatchColumn::kDecoderInputIds,       BatchColumn::kDecoderPositionIds,
    BatchColumn::kDecoderTokenSample,    BatchColumn::kDecoderSequenceStart,
    BatchColumn::kDecoderSequenceLength, BatchColumn::kDecoderTokenLabels};

}  // namespace

std::string_view batch_axis_name(BatchAxis axis) {
  switch (axis) {
    case BatchAxis::kTokens:
      return "tokens";
    case BatchAxis::kSequences:
      return "sequences";
    case BatchAxis::kDecoderTokens:
      break;
  }
  return "decoder_tokens";
}

int64_t BatchCapacity::of(BatchAxis axis) const {
  if (axis == BatchAxis::kSequences) return sequences;
  return axis == BatchAxis::kTokens ? tokens : decoder_tokens;
}

int64_t BatchCapacity::longest(BatchAxis axis) const {
  CHECK(counts_tokens(axis), "the longest of the axis {}", batch_axis_name(axis));
  return axis == BatchAxis::kTokens ? longest_sequence : longest_decoder_sequence;
}

const TokenColumns& token_columns(BatchAxis axis) {
  CHECK(counts_tokens(axis), "columns of tokens on the axis {}", batch_axis_name(axis));
  return axis == BatchAxis::kTokens ? kTokenColumns : kDecoderColumns;
}

const BatchColumnInfo& batch_column_info(BatchColumn column) {
  return kTable[static_cast<size_t>(column)];
}

int64_t column_bytes(BatchColumn column, int64_t count, int64_t width) {
  return count * width * dtype_bytes(batch_column_info(column).dtype);
}

std::array<BatchColumn, kBatchColumns> batch_columns() {
  std::array<BatchColumn, kBatchColumns> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<BatchColumn>(i);
  return all;
}

}  // namespace shoehorn
