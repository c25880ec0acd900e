// What can be recomputed in each layer of a step, what it frees and what it costs: the first part of a choice
// (session/recompute_choice.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "session/step_trial.h"

namespace shoehorn {

// Values of a layer to recompute together.
struct RecomputeOption {
  std::vector<std::string> names;
  int64_t freed_bytes = 0;  // at the peak
  double seconds = 0;       // of the nodes that run again
};

// The options of a layer, or of what belongs to no layer. By rising bytes and seconds; the first recomputes nothing.
struct LayerOptions {
  int32_t layer = -1;
  size_t alike = 0;  // layers with the same number have the same options, but for their names
  std::vector<RecomputeOption> options;
};

struct RecomputeOptions {
  std::vector<LayerOptions> layers;  // lowest first
  // Of everything that is kept without a set, by name: the bytes that wait for the backward, of one micro-batch.
  std::map<std::string, int64_t> kept_bytes;
  // Of these, what other layers start from: it is in no option.
  std::set<std::string> bases;
};

// `kept` is the trial without a set.
RecomputeOptions recompute_options(const StepTrial& trial, const TrialOutcome& kept);

}  // namespace shoehorn
