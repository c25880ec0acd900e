// What each skippable pass is worth to a run: compares the step with the pass and without it.
//
// Nothing runs: both steps are built and planned, and their work is the sum of their ops' costs. Effects are
// marginal: if two passes can do each other's work, each looks small.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "passes/pipeline.h"
#include "plan/machine_profile.h"
#include "session/session.h"

namespace shoehorn {

// Of one optimizer step.
struct StepWork {
  double nodes = 0;
  double flops = 0;
  double bytes = 0;    // read and written, without caching
  double seconds = 0;  // lower bound from the machine's limits
  int64_t arena_bytes = 0;

  bool operator==(const StepWork&) const = default;
};

struct PassEffect {
  std::string name;
  Exactness exactness = Exactness::kExact;
  bool is_skipped = false;  // by the run's own skip_passes
  StepWork with = {};
  StepWork without = {};

  bool does_something() const { return with != without; }
};

// In the order of the pass list. Throws UserError like Session's constructor.
std::vector<PassEffect> explain_passes(const Model& model, const SessionOptions& options,
                                       const MachineLimits& limits);

// By pass: the step's work with it and without it.
nlohmann::json to_json(const std::vector<PassEffect>& effects);

}  // namespace shoehorn
