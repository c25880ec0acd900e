#include "train/memory_forecast.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/process.h"

namespace shoehorn {

namespace {

// What a run adds after the forecast besides its arenas: bound calls, stacks of the team, the conversion
// staging, log and checkpoint buffers. Measured with the settings of tests/memory_promise_test.cc.
constexpr int64_t kRunOverheadBytes = int64_t{3} << 20;

// The stacks of the team that runs the kernels are a part of what the process holds.
void start_team() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  CHECK(threads > 0, "a team has no threads");
}

std::string rows_of(const std::map<std::string, int64_t>& bytes) {
  std::vector<std::pair<std::string, int64_t>> rows(bytes.begin(), bytes.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, amount] : rows)
    text += fmt::format("    {:<28}{:>14}\n", name, format_bytes(amount));
  return text;
}

}  // namespace

int64_t MemoryForecast::arena_bytes() const {
  int64_t bytes = 0;
  for (const ArenaForecast& arena : arenas) bytes += arena.bytes;
  return bytes;
}

MemoryForecast forecast_memory(Session& session, std::optional<int64_t> budget) {
  session.compile();
  return forecast_least_memory(session, budget);
}

MemoryForecast forecast_least_memory(const Session& session, std::optional<int64_t> budget) {
  const MemoryPlan& plan = session.plan();
  start_team();
  malloc_trim(0);  // what planning freed goes back first, so that it is not counted twice
  MemoryForecast forecast;
  for (const AddressSpace space : kEveryAddressSpace) {
    const SpacePlan& arenas = plan.spaces[space];
    // The CPU's device is the host.
    const std::string name(space == AddressSpace::kDevice ? "host" : address_space_name(space));
    if (arenas.persistent_bytes > 0)
      forecast.arenas.push_back({name, "persistent", arenas.persistent_bytes, arenas.persistent_bytes});
    if (arenas.transient_bytes > 0)
      forecast.arenas.push_back(
          {name, "transient", arenas.transient_bytes, arenas.transient_lower_bound_bytes});
  }
  forecast.by_role = bytes_by_role(session.state(), plan);
  forecast.by_component = bytes_by_component(session.state(), plan);
  forecast.by_component_kind = bytes_by_component_kind(session.state(), plan);
  const int64_t resident = process_resident_bytes();
  forecast.process_overhead_bytes = resident + kRunOverheadBytes;
  forecast.planning_peak_bytes = process_peak_bytes();
  forecast.limit =
      budget ? MemoryLimit{MemoryLimitKind::kBudget, {}, *budget, *budget} : binding_memory_limit();
  forecast.budget_bytes = budget.value_or(
      std::min(forecast.limit.available_bytes, std::numeric_limits<int64_t>::max() - resident) + resident);
  forecast.parameters = session.parameter_count();
  forecast.trainable_parameters = session.trainable_parameter_count();
  forecast.planning_seconds = session.planning_seconds();
  return forecast;
}

std::string format_forecast(const MemoryForecast& forecast) {
  const std::string trained = forecast.trainable_parameters == forecast.parameters
                                  ? ""
                                  : fmt::format(", {} trained", format_count(forecast.trainable_parameters));
  std::string text =
      fmt::format("Memory this run will take ({} parameters{}, planned in {:.0f} ms)\n",
                  format_count(forecast.parameters), trained, forecast.planning_seconds * 1000);
  text += "  by role, at the peak of the step\n" + rows_of(forecast.by_role);
  text += "  by component\n" + rows_of(forecast.by_component_kind);
  for (const ArenaForecast& arena : forecast.arenas) {
    const double over = arena.lower_bound_bytes > 0
                            ? 100.0 * static_cast<double>(arena.bytes - arena.lower_bound_bytes) /
                                  static_cast<double>(arena.lower_bound_bytes)
                            : 0;
    text +=
        fmt::format("  {:<30}{:>14}   {:.2f}% above its lower bound\n",
                    fmt::format("{} arena ({})", arena.name, arena.space), format_bytes(arena.bytes), over);
  }
  text += fmt::format("  {:<30}{:>14}\n", "process besides the arenas",
                      format_bytes(forecast.process_overhead_bytes));
  text += fmt::format("  {:<30}{:>14}   of {} ({}{})\n", "peak of the whole process",
                      format_bytes(forecast.process_peak_bytes()), format_bytes(forecast.budget_bytes),
                      forecast.fits() ? "fits" : "does not fit",
                      forecast.planning_peak_bytes > forecast.process_bytes() ? "; reached already" : "");
  return text;
}

nlohmann::json to_json(const MemoryForecast& forecast) {
  nlohmann::json arenas = nlohmann::json::array();
  for (const ArenaForecast& arena : forecast.arenas) {
    arenas.push_back({{"space", arena.space},
                      {"name", arena.name},
                      {"bytes", arena.bytes},
                      {"lower_bound_bytes", arena.lower_bound_bytes}});
  }
  nlohmann::json limit = {{"kind", memory_limit_name(forecast.limit.kind)},
                          {"bytes", forecast.limit.limit_bytes}};
  if (!forecast.limit.path.empty()) limit["path"] = forecast.limit.path.string();
  return {{"fits", forecast.fits()},
          {"budget_bytes", forecast.budget_bytes},
          {"limit", std::move(limit)},
          {"arenas", std::move(arenas)},
          {"arena_bytes", forecast.arena_bytes()},
          {"by_role", forecast.by_role},
          {"by_component", forecast.by_component},
          {"process_overhead_bytes", forecast.process_overhead_bytes},
          {"planning_peak_bytes", forecast.planning_peak_bytes},
          {"process_peak_bytes", forecast.process_peak_bytes()},
          {"parameters", forecast.parameters},
          {"trainable_parameters", forecast.trainable_parameters},
          {"planning_seconds", forecast.planning_seconds}};
}

}  // namespace shoehorn
