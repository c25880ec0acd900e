// How ranks gather weights that they share (--zero_stage 3), where nobody gave --zero_prefetch_layers or
// --zero_persistence_threshold.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "arguments/training_arguments.h"
#include "passes/step_options.h"

namespace shoehorn {

struct Gathering {
  int64_t prefetch_layers = RankOptions().zero_prefetch_layers;
  int64_t persistence_threshold = RankOptions().zero_persistence_threshold;  // elements
  bool operator==(const Gathering&) const = default;
};

inline constexpr Gathering kLeastGathering = {0, 0};
inline constexpr int64_t kMostPrefetchLayers = 4;
inline constexpr int64_t kMostPersistenceThreshold = 1'000'000;

// As the arguments say, or the standard.
Gathering gathering_of(const TrainingArguments& args);

// What was not given.
struct OpenGathering {
  bool prefetch_layers = true;
  bool persistence_threshold = true;
};

// A run that gathers so.
struct GatheringPlan {
  bool fits = true;                         // the memory of every rank
  std::optional<double> step_seconds = {};  // as predicted; nothing where nobody knows
};

// `first`, whose layer ahead hides most of the messages. Where that does not fit, no layer ahead; and if that does not, either,
// nothing whole. Where times are known, more layers ahead, and then larger weights that stay whole, as long as that fits and
// each is predicted to make the step faster by a percent. The last that `plan` was asked for may be another one.
Gathering choose_gathering(const Gathering& first, const OpenGathering& open,
                           const std::function<GatheringPlan(const Gathering&)>& plan);

}  // namespace shoehorn
