#include "train/prefetch_choice.h"

namespace shoehorn {

namespace {

constexpr double kFasterByAPercent = 0.99;

}  // namespace

int64_t choose_prefetch_layers(const std::function<PrefetchPlan(int64_t layers)>& plan) {
  int64_t chosen = 1;
  PrefetchPlan best = plan(chosen);
  if (!best.fits) return 0;
  while (best.step_seconds && chosen < kMostPrefetchLayers) {
    const PrefetchPlan deeper = plan(chosen + 1);
    const bool is_faster =
        deeper.step_seconds && *deeper.step_seconds < *best.step_seconds * kFasterByAPercent;
    if (!deeper.fits || !is_faster) break;
    best = deeper;
    ++chosen;
  }
  return chosen;
}

}  // namespace shoehorn
