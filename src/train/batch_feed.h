// Micro-batches into the inputs of a program.
#pragma once

#include <vector>

#include "data/batch.h"
#include "exec/executor.h"
#include "model/batch_inputs.h"

namespace shoehorn {

// The arrays of a batch's storages, to be filled in place by the data layer.
MicroBatch micro_batch_in(const Executor& executor, const BatchStorages& storages,
                          const BatchCapacity& capacity);

// Completes what the data layer does not know (samples and positions of sequences), and appends the batch's
// counts.
void finish_micro_batch(const Executor& executor, const BatchStorages& storages, const MicroBatch& batch,
                        std::vector<int64_t>& counts);

}  // namespace shoehorn
