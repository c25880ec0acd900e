#include "session/memory_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/process.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

std::string rows_of(const std::map<std::string, int64_t>& bytes) {
  std::vector<std::pair<std::string, int64_t>> rows(bytes.begin(), bytes.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, amount] : rows)
    text += fmt::format("    {:<28}{:>14}\n", name, format_bytes(amount));
  return text;
}

struct PhasePrograms {
  const char* name;
  bool (*runs)(ProgramKind kind);
};

// Weights and states go to and from files in pieces, whose buffers are a part of the process besides the arenas.
constexpr std::array kPhases = {
    PhasePrograms{"load", [](ProgramKind kind) { return kind == ProgramKind::kAfterLoad; }},
    PhasePrograms{"resume", [](ProgramKind kind) { return kind == ProgramKind::kAfterLoad; }},
    PhasePrograms{
        "train",
        [](ProgramKind kind) { return kind != ProgramKind::kAfterLoad && kind != ProgramKind::kEvaluate; }},
    PhasePrograms{"evaluate", [](ProgramKind kind) { return kind == ProgramKind::kEvaluate; }},
    PhasePrograms{"save", [](ProgramKind) { return false; }},
};

std::string moment_of(const Program& program, const TransientPlan& plan) {
  const auto position = static_cast<size_t>(plan.peak_position);
  const std::string_view name = traits_of(program.kind()).name;
  if (position >= program.nodes().size()) return std::string(name);
  return fmt::format("{} of {}", op_info(program.nodes()[position].kind).name, name);
}

std::vector<PhaseArenas> phase_arenas_of(const Session& session) {
  const MemoryPlan& plan = session.plan();
  int64_t persistent_bytes = 0;
  for (const AddressSpace space : kEveryAddressSpace) persistent_bytes += plan.spaces[space].persistent_bytes;
  std::vector<PhaseArenas> phases;
  for (const PhasePrograms& phase : kPhases) {
    BySpace<int64_t> transient{};
    PhaseArenas arenas{phase.name, persistent_bytes, {}};
    bool has_programs = false;
    int64_t most_bytes = 0;
    for (size_t i = 0; i < plan.programs.size(); ++i) {
      const Program& program = session.family().programs[i];
      if (!phase.runs(program.kind())) continue;
      has_programs = true;
      for (const AddressSpace space : kEveryAddressSpace)
        transient[space] = std::max(transient[space], plan.programs[i].spaces[space].bytes);
      if (plan.programs[i].device().bytes <= most_bytes) continue;
      most_bytes = plan.programs[i].device().bytes;
      arenas.moment = moment_of(program, plan.programs[i].device());
    }
    const std::string_view name = phase.name;
    if (!has_programs && (name == "train" || name == "evaluate")) continue;
    if (session.options().kind == RunKind::kEvaluate && (name == "resume" || name == "save")) continue;
    for (const AddressSpace space : kEveryAddressSpace) arenas.bytes += transient[space];
    phases.push_back(std::move(arenas));
  }
  return phases;
}

// Each rank has a device of its own, or they share the host's memory.
int64_t ranks_that_share(const Backend& backend, int64_t local_ranks) {
  return backend.machine().device_is_host ? local_ranks : 1;
}

std::string phase_rows(const std::vector<PhaseForecast>& phases) {
  std::string text;
  for (const PhaseForecast& phase : phases) {
    text += fmt::format("    {:<28}{:>14}{}{}\n", phase.name, format_bytes(phase.process_peak_bytes),
                        phase.moment.empty() ? "" : "   " + phase.moment, phase.binds ? "   (binds)" : "");
  }
  return text;
}

nlohmann::json to_json(const std::vector<PhaseForecast>& phases) {
  nlohmann::json json = nlohmann::json::array();
  for (const PhaseForecast& phase : phases) {
    json.push_back({{"name", phase.name},
                    {"process_peak_bytes", phase.process_peak_bytes},
                    {"moment", phase.moment},
                    {"binds", phase.binds}});
  }
  return json;
}

}  // namespace

std::vector<PhaseForecast> MemoryForecast::phases() const {
  std::vector<PhaseForecast> phases;
  if (planning_peak_bytes > 0) phases.push_back({"plan", planning_peak_bytes, {}});
  for (const PhaseArenas& phase : phase_arenas)
    phases.push_back({phase.name, phase.bytes + process_overhead_bytes, phase.moment});
  const auto largest = std::max_element(phases.begin(), phases.end(), [](const auto& a, const auto& b) {
    return a.process_peak_bytes < b.process_peak_bytes;
  });
  if (largest != phases.end()) largest->binds = true;
  return phases;
}

int64_t MemoryForecast::arena_bytes() const {
  int64_t bytes = 0;
  for (const ArenaForecast& arena : arenas) bytes += arena.bytes;
  return bytes;
}

int64_t whole_process_budget(const Backend& backend, const MemoryLimit& limit, int64_t local_ranks) {
  const int64_t resident = backend.can_run() ? process_resident_bytes() : 0;
  const int64_t available = limit.available_bytes / ranks_that_share(backend, local_ranks);
  const int64_t left = room_for_pages(limit.kind, available, backend.machine().threads);
  return std::min(left, std::numeric_limits<int64_t>::max() - resident) + resident;
}

MemoryForecast forecast_memory(Session& session, std::optional<int64_t> budget, int64_t local_ranks) {
  session.compile();
  return forecast_least_memory(session, budget, local_ranks);
}

MemoryForecast forecast_least_memory(const Session& session, std::optional<int64_t> budget,
                                     int64_t local_ranks) {
  const MemoryPlan& plan = session.plan();
  const Backend& backend = session.backend();
  MemoryForecast forecast;
  forecast.process_overhead_bytes = backend.measure_overhead_bytes(AddressSpace::kHost);
  for (const AddressSpace space : kEveryAddressSpace) {
    const SpacePlan& arenas = plan.spaces[space];
    const bool is_host = space == AddressSpace::kDevice && backend.machine().device_is_host;
    const std::string name(is_host ? "host" : address_space_name(space));
    if (arenas.persistent_bytes > 0)
      forecast.arenas.push_back({name, "persistent", arenas.persistent_bytes, arenas.persistent_bytes});
    if (arenas.transient_bytes > 0)
      forecast.arenas.push_back(
          {name, "transient", arenas.transient_bytes, arenas.transient_lower_bound_bytes});
  }
  forecast.phase_arenas = phase_arenas_of(session);
  forecast.by_role = bytes_by_role(session.state(), plan);
  forecast.by_component = bytes_by_component(session.state(), plan);
  forecast.by_component_kind = bytes_by_component_kind(session.state(), plan);
  if (backend.can_run()) forecast.planning_peak_bytes = process_peak_bytes();
  forecast.limit =
      budget ? MemoryLimit{MemoryLimitKind::kBudget, {}, *budget, *budget} : backend.memory_limit();
  forecast.budget_bytes = budget ? *budget : whole_process_budget(backend, forecast.limit, local_ranks);
  if (!budget) forecast.budget_ranks = ranks_that_share(backend, local_ranks);
  forecast.world_size = session.options().step.ranks.world_size;
  forecast.sent_bytes_in_step = session.sent_bytes_in_step(0);
  forecast.local_sgd_steps = session.options().step.ranks.local_steps();
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
  text += "  by phase, of a process that did nothing else\n" + phase_rows(forecast.phases());
  text += fmt::format("  {:<30}{:>14}   of {}{} ({}{})\n", "peak of the whole process",
                      format_bytes(forecast.process_peak_bytes()), format_bytes(forecast.budget_bytes),
                      forecast.budget_ranks > 1
                          ? fmt::format(", the share of one of {} ranks on a host", forecast.budget_ranks)
                          : "",
                      forecast.fits() ? "fits" : "does not fit",
                      forecast.planning_peak_bytes > forecast.process_bytes() ? "; reached already" : "");
  if (forecast.world_size > 1) {
    const std::string average =
        forecast.local_sgd_steps > 0
            ? fmt::format(" on average, all of it every {} steps", forecast.local_sgd_steps)
            : "";
    text += fmt::format("  {:<30}{:>14}   by each of {} ranks{}; memory is that of one\n", "sent in a step",
                        format_bytes(forecast.sent_bytes_in_step), forecast.world_size, average);
  }
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
  nlohmann::json json;
  if (forecast.world_size > 1)
    json = {{"world_size", forecast.world_size},
            {"sent_bytes_in_step", forecast.sent_bytes_in_step},
            {"budget_ranks", forecast.budget_ranks}};
  nlohmann::json limit = {{"kind", memory_limit_name(forecast.limit.kind)},
                          {"bytes", forecast.limit.limit_bytes}};
  if (!forecast.limit.path.empty()) limit["path"] = forecast.limit.path.string();
  json.update({{"fits", forecast.fits()},
               {"budget_bytes", forecast.budget_bytes},
               {"limit", std::move(limit)},
               {"arenas", std::move(arenas)},
               {"arena_bytes", forecast.arena_bytes()},
               {"by_role", forecast.by_role},
               {"by_component", forecast.by_component},
               {"process_overhead_bytes", forecast.process_overhead_bytes},
               {"planning_peak_bytes", forecast.planning_peak_bytes},
               {"process_peak_bytes", forecast.process_peak_bytes()},
               {"phases", to_json(forecast.phases())},
               {"parameters", forecast.parameters},
               {"trainable_parameters", forecast.trainable_parameters},
               {"planning_seconds", forecast.planning_seconds}});
  return json;
}

}  // namespace shoehorn
