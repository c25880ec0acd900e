#include "train/loss_scale_state.h"

namespace shoehorn {

LossScaleValues read_loss_scale(const Executor& executor, const LossScaleStorages& storages) {
  LossScaleValues values;
  values.scale = *executor.storage_as<float>(storages.scale);
  if (storages.applied_in_row.valid()) {
    values.applied_in_row = *executor.storage_as<int32_t>(storages.applied_in_row);
    values.overflows_to_go = *executor.storage_as<int32_t>(storages.overflows_to_go);
  }
  return values;
}

void write_loss_scale(Executor& executor, const LossScaleStorages& storages, const LossScaleValues& values) {
  *executor.storage_as<float>(storages.scale) = values.scale;
  if (!storages.applied_in_row.valid()) return;
  *executor.storage_as<int32_t>(storages.applied_in_row) = values.applied_in_row;
  *executor.storage_as<int32_t>(storages.overflows_to_go) = values.overflows_to_go;
}

bool was_skipped(const Executor& executor, const LossScaleStorages& storages) {
  return storages.found_inf.valid() && *executor.storage_as<int32_t>(storages.found_inf) != 0;
}

}  // namespace shoehorn
