// Reads and writes the state of the loss scale between two steps, for the host and for checkpoints.
#pragma once

#include "exec/executor.h"
#include "passes/loss_scale.h"

namespace shoehorn {

// For float16 runs: `storages.scale` is valid.
LossScaleValues read_loss_scale(const Executor& executor, const LossScaleStorages& storages);
void write_loss_scale(Executor& executor, const LossScaleStorages& storages, const LossScaleValues& values);

// True if the last step's update was skipped because a gradient was infinite or NaN. Always false in other
// runs.
bool was_skipped(const Executor& executor, const LossScaleStorages& storages);

}  // namespace shoehorn
