#include "exec/cpu/optimizers/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace shoehorn::cpu {

void found_inf(const double* sum_of_squares, int32_t* found) {
  *found = std::isfinite(*sum_of_squares) ? 0 : 1;
}

void loss_scale_update(const LossScaleAttributes& attributes, const int32_t* found_inf,
                       const LossScaleState& state) {
  if (*found_inf != 0) {
    *state.applied_in_row = 0;
    if (*state.overflows_to_go > 1) {
      --*state.overflows_to_go;
    } else {
      *state.scale = std::max(*state.scale * attributes.backoff_factor, attributes.minimum);
    }
    return;
  }
  if (++*state.applied_in_row < attributes.growth_interval) return;
  *state.applied_in_row = 0;
  *state.overflows_to_go = attributes.hysteresis;
  const float grown = *state.scale * attributes.growth_factor;
  if (std::isfinite(grown)) *state.scale = grown;
}

}  // namespace shoehorn::cpu
