// The learning rate that an optimizer sets itself: Adafactor's with relative_step, which reads no other. With
// scale_parameter each parameter's is that times the root mean square of its weights.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/optimizer_settings.h"

namespace shoehorn {

// Of update 1, 2, ….
inline double relative_step(const AdafactorSettings& settings, double update) {
  return std::min(settings.warmup_init ? 1e-6 * update : 1e-2, 1.0 / std::sqrt(update));
}

// Of the next update of any optimizer; nothing where it takes the rate that it is given.
inline std::optional<double> relative_step_of(const OptimizerSettings& settings, int64_t applied_updates) {
  const auto* adafactor = std::get_if<AdafactorSettings>(&settings);
  if (adafactor == nullptr || !adafactor->relative_step) return std::nullopt;
  return relative_step(*adafactor, static_cast<double>(applied_updates) + 1.0);
}

}  // namespace shoehorn
