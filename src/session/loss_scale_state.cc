#include "session/loss_scale_state.h"

namespace shoehorn {

LossScaleValues read_loss_scale(const Executor& executor, const LossScaleStorages& storages) {
  LossScaleValues values;
  values.scale = executor.read_scalar<float>(storages.scale);
  if (storages.applied_in_row.valid()) {
    values.applied_in_row = executor.read_scalar<int32_t>(storages.applied_in_row);
    values.overflows_to_go = executor.read_scalar<int32_t>(storages.overflows_to_go);
  }
  return values;
}

void write_loss_scale(Executor& executor, const LossScaleStorages& storages, const LossScaleValues& values) {
  executor.write_scalar(storages.scale, values.scale);
  if (!storages.applied_in_row.valid()) return;
  executor.write_scalar(storages.applied_in_row, values.applied_in_row);
  executor.write_scalar(storages.overflows_to_go, values.overflows_to_go);
}

bool was_skipped(const Executor& executor, const LossScaleStorages& storages) {
  return storages.found_inf.valid() && executor.read_scalar<int32_t>(storages.found_inf) != 0;
}

}  // namespace shoehorn
