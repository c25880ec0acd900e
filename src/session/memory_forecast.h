// What a run will take, said before it takes it.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "base/memory_limit.h"
#include "session/session.h"

namespace shoehorn {

struct ArenaForecast {
  std::string space;  // address space: "host", "pinned host", …
  std::string name;   // "persistent", "transient"
  int64_t bytes = 0;
  int64_t lower_bound_bytes = 0;
};

struct MemoryForecast {
  std::vector<ArenaForecast> arenas;
  std::map<std::string, int64_t> by_role;
  std::map<std::string, int64_t> by_component;
  std::map<std::string, int64_t> by_component_kind;  // a component of all layers is one
  int64_t process_overhead_bytes = 0;                // libraries, tokenizer, data, products' code, stacks
  int64_t planning_peak_bytes = 0;                   // the most that the process has held so far
  int64_t budget_bytes = 0;                          // for the whole process, what it has already included
  MemoryLimit limit = {};                            // where the budget comes from
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  double planning_seconds = 0;

  int64_t arena_bytes() const;
  // From now on: what has to fit.
  int64_t process_bytes() const { return arena_bytes() + process_overhead_bytes; }
  // Of the whole process, to its end: planning takes more than a very small model's training.
  int64_t process_peak_bytes() const { return std::max(process_bytes(), planning_peak_bytes); }
  bool fits() const { return process_bytes() <= budget_bytes; }
};

// Call when everything that the run keeps besides its arenas is in memory (tokenizer, data); compiles the
// session. What is resident then, and what a run is known to add, is the process's overhead. `budget` unset:
// what the limit that binds (base/memory_limit.h) leaves now.
MemoryForecast forecast_memory(Session& session, std::optional<int64_t> budget);

// The same without the code, a lower bound: for a plan that may be given up. Code that was compiled stays in
// the products' library, and so in the process.
MemoryForecast forecast_least_memory(const Session& session, std::optional<int64_t> budget);

// Tables for people.
std::string format_forecast(const MemoryForecast& forecast);
nlohmann::json to_json(const MemoryForecast& forecast);

}  // namespace shoehorn
