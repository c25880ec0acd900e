// The loss scale of float16 training.
//
//   before   loss ──► loss_gradient ──► … ──► gradients ──► update
//   after    loss ──► loss_gradient · scale ──► … ──► gradients · scale
//                 ──► update(1 / scale, unless found_inf)
//
// Gradients below 2^-24 become zero in float16; the gradients of a scaled loss do not. The pass makes the
// scale the gradient of the loss, from which the backward starts. `update` folds 1 / scale into the clip
// coefficient, skips the whole update if any gradient is infinite or NaN, and adjusts a dynamic scale
// (ops/loss_scale_ops.cc).
//
// A power-of-two scale changes no bit of a gradient that stays in range. Memory and time: four scalars, and,
// without clipping, one pass over the gradients. Changes numerics: for the better.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void loss_scale(ProgramFamily& family, const StepOptions& options);

// The values before the first step, from the options.
struct LossScaleValues {
  float scale = 1;
  int32_t applied_in_row = 0;
  int32_t overflows_to_go = 1;
};
LossScaleValues first_loss_scale(const LossScaleOptions& options);

}  // namespace shoehorn
