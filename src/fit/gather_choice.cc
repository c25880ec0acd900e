#include "fit/gather_choice.h"

namespace shoehorn {

namespace {

constexpr double kFasterByAPercent = 0.99;

// The smaller form that fits, or the smallest.
Gathering smaller_gathering(Gathering chosen, const OpenGathering& open,
                            const std::function<GatheringPlan(const Gathering&)>& plan) {
  if (open.prefetch_layers) chosen.prefetch_layers = 0;
  if (open.persistence_threshold && !(open.prefetch_layers && plan(chosen).fits))
    chosen.persistence_threshold = 0;
  return chosen;
}

}  // namespace

Gathering gathering_of(const TrainingArguments& args) {
  const Gathering standard;
  return {args.zero_prefetch_layers.value_or(standard.prefetch_layers),
          args.zero_persistence_threshold.value_or(standard.persistence_threshold)};
}

Gathering choose_gathering(const Gathering& first, const OpenGathering& open,
                           const std::function<GatheringPlan(const Gathering&)>& plan) {
  Gathering chosen = first;
  GatheringPlan best = plan(chosen);
  if (!best.fits) return smaller_gathering(chosen, open, plan);
  const auto takes = [&](const Gathering& other) {
    const GatheringPlan planned = plan(other);
    const bool is_faster =
        planned.step_seconds && *planned.step_seconds < *best.step_seconds * kFasterByAPercent;
    if (!planned.fits || !is_faster) return false;
    best = planned;
    chosen = other;
    return true;
  };
  while (open.prefetch_layers && best.step_seconds && chosen.prefetch_layers < kMostPrefetchLayers) {
    if (!takes({chosen.prefetch_layers + 1, chosen.persistence_threshold})) break;
  }
  while (open.persistence_threshold && best.step_seconds &&
         chosen.persistence_threshold < kMostPersistenceThreshold) {
    if (!takes({chosen.prefetch_layers, chosen.persistence_threshold * 10})) break;
  }
  return chosen;
}

}  // namespace shoehorn
