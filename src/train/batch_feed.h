// Micro-batches into the inputs of a program.
#pragma once

#include <vector>

#include "data/batch.h"
#include "exec/executor.h"
#include "model/batch_inputs.h"

namespace shoehorn {

// The columns that programs asked for, to be filled in place by the data layer.
MicroBatch micro_batch_in(const Executor& executor, const BatchInputs& inputs);

// Appends the batch's count on each axis, in the order of add_batch_counts.
void append_counts(const MicroBatch& batch, std::vector<int64_t>& counts);

}  // namespace shoehorn
