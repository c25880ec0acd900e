// Kernels for the scalars of a loss scale. ops/loss_scale_ops.cc defines their meaning.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace shoehorn::cpu {

// found[0] = 1 if sum_of_squares[0] is infinite or NaN, else 0.
void found_inf(const double* sum_of_squares, int32_t* found);

struct LossScaleState {
  float* scale;              // [1]
  int32_t* applied_in_row;   // [1]
  int32_t* overflows_to_go;  // [1]
};

// Updates the state after a step that was applied (found_inf 0) or skipped. The scale neither grows beyond
// float32's range nor shrinks below the minimum.
void loss_scale_update(const LossScaleAttributes& attributes, const int32_t* found_inf,
                       const LossScaleState& state);

}  // namespace shoehorn::cpu
