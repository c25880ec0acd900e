// Finds changes that make a run fit whose plan does not. Each change is planned before it is offered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fit/plan_changes.h"
#include "fit/plan_search.h"
#include "session/memory_forecast.h"

namespace shoehorn {

struct Alternative {
  std::string flags;               // to be added to the run's flags
  int64_t process_peak_bytes = 0;  // upper bound for the whole process with them
  MathsChange change = MathsChange::kExact;
  // Of a step, as a multiple of that of the run as asked for, by rates that machines of its kind have: a rough estimate. None
  // of a run that only evaluates.
  std::optional<double> relative_seconds = {};
};

struct Alternatives {
  std::vector<Alternative> fitting;  // least change first
  std::vector<std::string> tried;    // flags that were tried, alone and together
  std::optional<Alternative> least;  // of everything that was planned; nullopt if nothing was
  // Of a large model: the time was over, so that what was looked into last recomputes more than it would have to.
  bool was_cut_short = false;
};

// What may be changed about the run.
struct AlternativeScope {
  bool keeps_optimizer = false;  // the caller created it; flags cannot change it
  bool keeps_state = false;      // a checkpoint fixes precision, optimizer and adapters
};

// Searches as `fit` does (plan_search.h) with every change open, also of what the run's flags say: for each single change of
// precision, optimizer or adapters, and for the combinations of those that do not fit alone, the fastest way to split, order
// and recompute a step that fits. For a run that only evaluates, the flags are those of `eval` and `predict`. `forecast` is of
// `args`, in a process that still holds its session.
Alternatives find_alternatives(const Model& model, const SessionOfArguments& options_of,
                               const TrainingArguments& args, const MemoryForecast& forecast,
                               const AlternativeScope& scope);

}  // namespace shoehorn
