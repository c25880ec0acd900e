// Finds changes that make a run fit whose plan does not. Each change is planned before it is offered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/optimizer_settings.h"
#include "session/memory_forecast.h"

namespace shoehorn {

// What a change of flags does to the numbers, from least to most.
enum class MathsChange : uint8_t {
  kExact,     // no bit changes
  kRounding,  // the same sums in another order
  kNumerics,  // another precision, update rule or clipping
  kAdapters,  // other parameters are trained
};

// Moves that `fit` (fit/plan_changes.h) and a refusal make alike. An optimizer of the same kind that keeps less state, or Adafactor.
struct SmallerOptimizer {
  const char* name;  // of --optim
  OptimizerSettings settings;
};
// Those with less state than `asked`, the largest first; none where it has no state, or the least.
std::vector<SmallerOptimizer> smaller_optimizers(const OptimizerSettings& asked);
// The rank of adapters that are trained in place of weights.
inline constexpr int64_t kOfferedLoraRank = 8;

struct Alternative {
  std::string flags;               // to be added to the run's flags
  int64_t process_peak_bytes = 0;  // upper bound for the whole process with them
  MathsChange change = MathsChange::kExact;
};

struct Alternatives {
  std::vector<Alternative> fitting;  // least change first
  std::vector<std::string> tried;    // flags that were tried, alone and together
  std::optional<Alternative> least;  // of everything that was planned; nullopt if nothing was
};

// What may be changed about the run.
struct AlternativeScope {
  int64_t micro_batch_size = 1;  // per_device_train_batch_size
  bool keeps_optimizer = false;  // the caller created it; flags cannot change it
  bool has_optim_args = false;   // they belong to this optimizer; others read other ones
  bool keeps_state = false;      // a checkpoint fixes precision, optimizer and adapters
};

// Tries each change in a fixed list, and the combinations of changes that do not fit alone. Each is tried
// with the whole micro-batch; if that is too large, with recomputed layers and the largest divisor of the
// micro-batch that fits, accumulated. For a run that only evaluates, the flags are those of `eval` and
// `predict`.
Alternatives find_alternatives(const Model& model, const SessionOptions& options,
                               const MemoryForecast& forecast, const AlternativeScope& scope);

}  // namespace shoehorn
