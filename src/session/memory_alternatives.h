// What to change about a run whose plan does not fit. Each change is planned before it is offered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "session/memory_forecast.h"

namespace shoehorn {

// What a change of flags does to the numbers, least first.
enum class MathsChange : uint8_t {
  kExact,     // none, bit for bit
  kRounding,  // the same sums in another order
  kNumerics,  // another precision, update rule or clipping
  kAdapters,  // other parameters are trained
};

struct Alternative {
  std::string flags;               // to add to those of the run
  int64_t process_peak_bytes = 0;  // at most what the whole process takes with them
  MathsChange change = MathsChange::kExact;
};

struct Alternatives {
  std::vector<Alternative> fitting;  // least change first
  std::vector<std::string> tried;    // flags that were tried, alone and together
  std::optional<Alternative> least;  // of all that was planned; nothing where nothing was
};

// What may be changed.
struct AlternativeScope {
  int64_t micro_batch_size = 1;  // per_device_train_batch_size
  bool keeps_optimizer = false;  // the caller made it; no flag names another
  bool has_optim_args = false;   // of the optimizer asked for; another reads others
  bool keeps_state = false;      // a checkpoint has it: precision, optimizer and adapters stay
};

// Each of a fixed list of changes, and of their combinations those of which no part fits, with the whole
// micro-batch, or where that is too large with layers recomputed and the largest of its divisors that fits,
// accumulated. Of a run that only evaluates, flags of `eval` and `predict`.
Alternatives find_alternatives(const Model& model, const SessionOptions& options,
                               const MemoryForecast& forecast, const AlternativeScope& scope);

}  // namespace shoehorn
