#include "passes/loss_scale.h"

#include "base/error.h"

namespace shoehorn {

void loss_scale(ProgramFamily& family, const StepOptions& options) {
  const ProgramId step = family.find(ProgramKind::kTrainStep);
  if (options.precision != Precision::kFloat16 || !step.valid()) return;
  Program& program = family.program(step);
  StateTable& state = *family.state;
  family.loss_scale.scale = add_scalar(state, "loss_scale", DType::kF32);
  if (options.loss_scale.fixed == 0) {
    family.loss_scale.applied_in_row = add_scalar(state, "loss_scale.applied_in_row", DType::kI32);
    family.loss_scale.overflows_to_go = add_scalar(state, "loss_scale.overflows_to_go", DType::kI32);
  }
  if (!options.update_in_backward) family.loss_scale.found_inf = add_scalar(state, "found_inf", DType::kI32);
  int64_t scaled = 0;
  for (Node& node : program.nodes()) {
    if (node.kind != OpKind::kCrossEntropyGrad) continue;
    node.inputs.push_back(program.read_state(family.loss_scale.scale));
    ++scaled;
  }
  CHECK(scaled > 0, "program {} has no gradient of a loss to scale", program.name());
}

LossScaleValues first_loss_scale(const LossScaleOptions& options) {
  return {.scale = options.fixed != 0 ? options.fixed : options.initial,
          .applied_in_row = 0,
          .overflows_to_go = options.hysteresis};
}

}  // namespace shoehorn
