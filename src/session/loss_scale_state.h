// The loss scale between two steps, as the host and checkpoints see it.
#pragma once

#include "exec/executor.h"
#include "passes/loss_scale.h"

namespace shoehorn {

// Of a float16 run: `storages.scale` is valid.
LossScaleValues read_loss_scale(const Executor& executor, const LossScaleStorages& storages);
void write_loss_scale(Executor& executor, const LossScaleStorages& storages, const LossScaleValues& values);

// Whether the last step's update was skipped because a gradient was infinite or not a number. False in every
// other run.
bool was_skipped(const Executor& executor, const LossScaleStorages& storages);

}  // namespace shoehorn
