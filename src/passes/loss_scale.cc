#include "passes/loss_scale.h"

namespace shoehorn {

void loss_scale(ProgramFamily& family, const StepOptions& options) {
  const ProgramId step = family.find(ProgramKind::kTrainStep);
  if (options.precision != Precision::kFloat16 || !step.valid()) return;
  StateTable& state = *family.state;
  family.loss_scale.scale = add_scalar(state, "loss_scale", DType::kF32);
  if (options.loss_scale.fixed == 0) {
    family.loss_scale.applied_in_row = add_scalar(state, "loss_scale.applied_in_row", DType::kI32);
    family.loss_scale.overflows_to_go = add_scalar(state, "loss_scale.overflows_to_go", DType::kI32);
  }
  if (!options.update_in_backward) family.loss_scale.found_inf = add_scalar(state, "found_inf", DType::kI32);
}

LossScaleValues first_loss_scale(const LossScaleOptions& options) {
  return {.scale = options.fixed != 0 ? options.fixed : options.initial,
          .applied_in_row = 0,
          .overflows_to_go = options.hysteresis};
}

}  // namespace shoehorn
