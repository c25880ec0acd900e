// Forecasts the memory of a run before it is reserved.
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

// The arenas' bytes that a part of a run needs: what stays, and what the largest of its programs makes while it runs.
struct PhaseArenas {
  std::string name;  // "load", "train", "evaluate", "save", "resume"
  int64_t bytes = 0;
  std::string moment;  // the program and the operation at which most is alive; empty: no program runs
};

// What a process would hold that did nothing else.
struct PhaseForecast {
  std::string name;  // one of the above, or "plan"
  int64_t process_peak_bytes = 0;
  std::string moment;
  bool binds = false;  // the first of those that take most: the peak of the whole process is its
};

struct MemoryForecast {
  std::vector<ArenaForecast> arenas;
  std::vector<PhaseArenas> phase_arenas;
  std::map<std::string, int64_t> by_role;
  std::map<std::string, int64_t> by_component;
  std::map<std::string, int64_t> by_component_kind;  // the same component of all layers is one entry
  int64_t process_overhead_bytes = 0;                // libraries, tokenizer, data, products' code, stacks
  int64_t planning_peak_bytes = 0;                   // the most that the process has held so far
  int64_t budget_bytes = 0;                          // for the whole process, including what it already holds
  MemoryLimit limit = {};                            // where the budget comes from
  int64_t budget_ranks =
      1;  // of a host, whose memory it is a share of; 1: the process has all, or the budget was given
  int64_t world_size = 1;          // ranks; all that is here is of one of them
  int64_t sent_bytes_in_step = 0;  // by the first rank to others; another's differ by a rounding
  int64_t local_sgd_steps =
      0;  // not 0: that is the average over so many steps, which send nothing but the last
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  double planning_seconds = 0;

  int64_t arena_bytes() const;
  // The bytes from now on: these have to fit.
  int64_t process_bytes() const { return arena_bytes() + process_overhead_bytes; }
  // The peak of the whole process to its end. For a very small model planning takes more than training.
  int64_t process_peak_bytes() const { return std::max(process_bytes(), planning_peak_bytes); }
  bool fits() const { return process_bytes() <= budget_bytes; }
  // In the order in which a run comes to them. The arenas are reserved whole before the first of them that needs one, so that the
  // largest is what the process holds in all of them.
  std::vector<PhaseForecast> phases() const;
};

// What the binding limit (base/memory_limit.h) leaves a process of the backend, one of `local_ranks` of its host that
// take as much, unless each has a device of its own: with what this process holds already, where the run would be its
// own. What the kernel keeps for the process is left out, so that its pages can have it all.
int64_t whole_process_budget(const Backend& backend, const MemoryLimit& limit, int64_t local_ranks = 1);

// Call it when everything is in memory that the run keeps besides its arenas (tokenizer, data). It compiles
// the session. The process's overhead is what is resident then, plus what a run is known to add. Without
// `budget`, the budget is whole_process_budget() now.
MemoryForecast forecast_memory(Session& session, std::optional<int64_t> budget, int64_t local_ranks = 1);

// The same without compiling: a lower bound, for plans that may be given up. (Compiled code stays in the
// products' library, and so in the process.)
MemoryForecast forecast_least_memory(const Session& session, std::optional<int64_t> budget,
                                     int64_t local_ranks = 1);

// Tables for people.
std::string format_forecast(const MemoryForecast& forecast);
nlohmann::json to_json(const MemoryForecast& forecast);

}  // namespace shoehorn
