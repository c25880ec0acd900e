// How many layers ahead ranks gather weights that they share (--zero_stage 3), where nobody gave --zero_prefetch_layers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace shoehorn {

inline constexpr int64_t kMostPrefetchLayers = 4;

// A run that gathers so many layers ahead.
struct PrefetchPlan {
  bool fits = true;                         // the memory of every rank
  std::optional<double> step_seconds = {};  // as predicted; nothing where nobody knows
};

// One layer ahead, which hides most of the messages; none where that does not fit. More, as long as that fits and each layer
// more is predicted to make the step faster by a percent. The last depth that `plan` was asked for may be another one.
int64_t choose_prefetch_layers(const std::function<PrefetchPlan(int64_t layers)>& plan);

}  // namespace shoehorn
