#include "train/batch_feed.h"

#include <algorithm>

namespace shoehorn {

MicroBatch micro_batch_in(const Executor& executor, const BatchStorages& storages,
                          const BatchCapacity& capacity) {
  const auto span = [&](StorageId id, int64_t count) {
    return std::span<int32_t>(executor.storage_as<int32_t>(id), static_cast<size_t>(count));
  };
  MicroBatch batch;
  batch.input_ids = span(storages.input_ids, capacity.tokens);
  batch.token_type_ids = span(storages.token_type_ids, capacity.tokens);
  batch.position_ids = span(storages.position_ids, capacity.tokens);
  batch.token_sample = span(storages.token_sample, capacity.tokens);
  batch.sequence_start = span(storages.sequence_start, capacity.sequences);
  batch.sequence_length = span(storages.sequence_length, capacity.sequences);
  batch.class_labels = span(storages.labels, capacity.sequences);
  return batch;
}

void finish_micro_batch(const Executor& executor, const BatchStorages& storages, const MicroBatch& batch,
                        std::vector<int64_t>& counts) {
  auto* sample = executor.storage_as<int32_t>(storages.sequence_sample);
  auto* position = executor.storage_as<int32_t>(storages.sequence_position);
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const auto start = static_cast<size_t>(batch.sequence_start[static_cast<size_t>(s)]);
    sample[s] = batch.token_sample[start];
    position[s] = 0;
  }
  counts.push_back(batch.tokens_padded);
  counts.push_back(batch.sequences);
}

}  // namespace shoehorn
