#include "session/batch_feed.h"

namespace shoehorn {

MicroBatchInputs::MicroBatchInputs(Executor& executor, const BatchInputs& inputs) {
  for (const BatchColumn column : batch_columns()) {
    const StorageId storage = inputs.find(column);
    if (!storage.valid()) continue;
    const int64_t width = inputs.width(column);
    const int64_t bytes = column_bytes(column, inputs.capacity().of(batch_column_info(column).axis), width);
    std::optional<WriteView>& view = views_[static_cast<size_t>(column)];
    view.emplace(executor, storage, 0, bytes);
    batch_.set(column, view->bytes(), width);
  }
}

void MicroBatchInputs::send() {
  for (std::optional<WriteView>& view : views_) {
    if (view) view->send();
  }
}

void append_counts(const MicroBatch& batch, std::vector<int64_t>& counts) {
  for (const BatchAxis axis : kBatchAxes) counts.push_back(batch.count(axis));
}

}  // namespace shoehorn
