// The learning rate that an optimizer computes itself: Adafactor's with relative_step, which ignores the
// given one. With scale_parameter, each parameter's rate is this one times the root mean square of its
// weights.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/optimizer_settings.h"

namespace shoehorn {

// For update 1, 2, …
inline double relative_step(const AdafactorSettings& settings, double update) {
  return std::min(settings.warmup_init ? 1e-6 * update : 1e-2, 1.0 / std::sqrt(update));
}

// For the next update of any optimizer; nullopt if the optimizer uses the given learning rate.
inline std::optional<double> relative_step_of(const OptimizerSettings& settings, int64_t applied_updates) {
  const auto* adafactor = std::get_if<AdafactorSettings>(&settings);
  if (adafactor == nullptr || !adafactor->relative_step) return std::nullopt;
  return relative_step(*adafactor, static_cast<double>(applied_updates) + 1.0);
}

}  // namespace shoehorn
