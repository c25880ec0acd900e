#include "data/batch_table.h"

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
}};

}  // namespace

std::string_view batch_axis_name(BatchAxis axis) {
  return axis == BatchAxis::kTokens ? "tokens" : "sequences";
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
