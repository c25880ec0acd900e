#include "session/batch_feed.h"

#include <algorithm>

namespace shoehorn {

namespace {

int64_t bytes_of(const BatchInputs& inputs, BatchColumn column) {
  return column_bytes(column, inputs.capacity().of(batch_column_info(column).axis), inputs.width(column));
}

}  // namespace

int64_t scattered_bytes(const BatchInputs& inputs) {
  int64_t bytes = sizeof(BatchCounts);
  for (const BatchColumn column : batch_columns()) {
    if (inputs.find(column).valid()) bytes += bytes_of(inputs, column);
  }
  return bytes;
}

MicroBatchInputs::MicroBatchInputs(Executor& executor, const BatchInputs& inputs) {
  for (const BatchColumn column : batch_columns()) {
    const StorageId storage = inputs.find(column);
    if (!storage.valid()) continue;
    std::optional<WriteView>& view = views_[static_cast<size_t>(column)];
    view.emplace(executor, storage, 0, bytes_of(inputs, column));
    batch_.set(column, view->bytes(), inputs.width(column));
  }
}

void MicroBatchInputs::send() {
  for (std::optional<WriteView>& view : views_) {
    if (view) view->send();
  }
}

void MicroBatchInputs::wait_until_free() {
  for (std::optional<WriteView>& view : views_) {
    if (view) view->wait_until_free();
  }
}

BatchCapacity needed_capacity(const MicroBatch& batch) {
  BatchCapacity needed{batch.count(BatchAxis::kTokens), batch.count(BatchAxis::kSequences)};
  // A program that does not ask for lengths depends on none.
  if (!batch.has(BatchColumn::kSequenceLength)) return needed;
  const auto lengths = batch.ints(BatchColumn::kSequenceLength);
  for (int64_t s = 0; s < batch.sequences; ++s)
    needed.longest_sequence = std::max<int64_t>(needed.longest_sequence, lengths[static_cast<size_t>(s)]);
  return needed;
}

BatchCapacity larger_of(const BatchCapacity& a, const BatchCapacity& b) {
  return {std::max(a.tokens, b.tokens), std::max(a.sequences, b.sequences),
          std::max(a.longest_sequence, b.longest_sequence)};
}

void append_counts(const MicroBatch& batch, std::vector<int64_t>& counts) {
  for (const BatchAxis axis : kBatchAxes) counts.push_back(batch.count(axis));
}

}  // namespace shoehorn
