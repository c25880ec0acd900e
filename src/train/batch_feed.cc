#include "train/batch_feed.h"

#include <span>

namespace shoehorn {

MicroBatch micro_batch_in(const Executor& executor, const BatchInputs& inputs) {
  MicroBatch batch;
  for (const BatchColumn column : batch_columns()) {
    const StorageId storage = inputs.find(column);
    if (!storage.valid()) continue;
    const int64_t width = inputs.width(column);
    const int64_t bytes = column_bytes(column, inputs.capacity().of(batch_column_info(column).axis), width);
    batch.set(column, {executor.storage_as<std::byte>(storage), static_cast<size_t>(bytes)}, width);
  }
  return batch;
}

void append_counts(const MicroBatch& batch, std::vector<int64_t>& counts) {
  for (const BatchAxis axis : kBatchAxes) counts.push_back(batch.count(axis));
}

}  // namespace shoehorn
