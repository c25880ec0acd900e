#include "train/memory_forecast.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/process.h"

namespace shoehorn {

namespace {

// What a run adds after the forecast besides its arenas: bound calls, stacks of the team, the conversion
// staging, log and checkpoint buffers. Measured with the settings of tests/memory_promise_test.cc.
constexpr int64_t kRunOverheadBytes = int64_t{3} << 20;

// A layer-major step holds every micro-batch's nodes; beyond this many it is no longer worth offering.
constexpr int64_t kMostUnrolledMicroBatches = 32;

std::string rows_of(const std::map<std::string, int64_t>& bytes) {
  std::vector<std::pair<std::string, int64_t>> rows(bytes.begin(), bytes.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, amount] : rows)
    text += fmt::format("    {:<28}{:>14}\n", name, format_bytes(amount));
  return text;
}

int64_t peak_with(const Model& model, const SessionOptions& options, int64_t overhead) {
  const Session session(model, options);
  return session.plan().arena_bytes() + overhead;
}

}  // namespace

std::map<std::string, int64_t> over_all_layers(const std::map<std::string, int64_t>& by_component) {
  std::map<std::string, int64_t> grouped;
  for (const auto& [name, amount] : by_component) {
    const size_t space = name.rfind("layer ", 0) == 0 ? name.find(' ', 6) : std::string::npos;
    grouped[space == std::string::npos ? name : name.substr(space + 1) + " (all layers)"] += amount;
  }
  return grouped;
}

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
  malloc_trim(0);  // what planning freed goes back first, so that it is not counted twice
  MemoryForecast forecast;
  for (const AddressSpace space : kEveryAddressSpace) {
    const SpacePlan& arenas = plan.spaces[space];
    if (arenas.bytes() == 0) continue;
    // The CPU's device is the host.
    const std::string name(address_space_name(space == AddressSpace::kDevice ? AddressSpace::kHost : space));
    forecast.arenas.push_back({name, "persistent", arenas.persistent_bytes, arenas.persistent_bytes});
    forecast.arenas.push_back(
        {name, "transient", arenas.transient_bytes, arenas.transient_lower_bound_bytes});
  }
  forecast.by_role = bytes_by_role(session.state(), plan);
  forecast.by_component = bytes_by_component(session.state(), plan);
  const int64_t resident = process_resident_bytes();
  forecast.process_overhead_bytes = resident + kRunOverheadBytes;
  forecast.budget_bytes = budget.value_or(available_memory_bytes() + resident);
  forecast.parameters = session.parameter_count();
  forecast.trainable_parameters = session.trainable_parameter_count();
  forecast.planning_seconds = session.planning_seconds();
  return forecast;
}

std::vector<Alternative> find_alternatives(const Model& model, const SessionOptions& options,
                                           const MemoryForecast& forecast, int64_t micro_batch_size) {
  std::vector<Alternative> found;
  const auto consider = [&](const SessionOptions& changed, const std::string& flags, bool changes_numerics) {
    const int64_t peak = peak_with(model, changed, forecast.process_overhead_bytes);
    if (peak <= forecast.budget_bytes) found.push_back({flags, peak, changes_numerics});
    return peak <= forecast.budget_bytes;
  };
  // The exact ladder: each rung keeps the ones before it.
  const auto climb = [&](SessionOptions base, std::string flags, bool changes_numerics) {
    if (changes_numerics && consider(base, flags, true)) return;
    SessionOptions split = base;
    for (int64_t micro_batch = micro_batch_size; micro_batch >= 1;) {
      const int64_t steps = base.step.gradient_accumulation_steps * micro_batch_size / micro_batch;
      split.train.tokens =
          (base.train.longest_sequence * micro_batch + kTokenMultiple - 1) / kTokenMultiple * kTokenMultiple;
      split.train.sequences = micro_batch;
      split.step.gradient_accumulation_steps = steps;
      const std::string batch_flags =
          micro_batch == micro_batch_size
              ? flags
              : fmt::format("{} --per_device_train_batch_size {} --gradient_accumulation_steps {}", flags,
                            micro_batch, steps);
      if (micro_batch != micro_batch_size && !split.step.update_in_backward &&
          consider(split, batch_flags, changes_numerics))
        return;
      SessionOptions recompute = split;
      recompute.step.recompute_every_n_layers = 1;
      if (!(split.step.update_in_backward && steps > 1) &&
          consider(recompute, batch_flags + " --gradient_checkpointing", changes_numerics)) {
        return;
      }
      if (steps > 1 && steps <= kMostUnrolledMicroBatches) {
        recompute.step.accumulation_order = AccumulationOrder::kLayer;
        if (consider(recompute, batch_flags + " --gradient_checkpointing --accumulation_order layer_major",
                     changes_numerics))
          return;
      }
      int64_t next = micro_batch - 1;
      while (next > 0 && micro_batch_size % next != 0) --next;
      micro_batch = next;
    }
  };
  climb(options, "", false);
  const StepOptions& step = options.step;
  const bool waits_for_overflow = step.precision == Precision::kFloat16 && step.loss_scale.fixed == 0;
  SessionOptions unclipped = options;
  unclipped.step.max_grad_norm = 0;
  unclipped.step.update_in_backward = true;
  if (unclipped.step.gradient_accumulation_steps > 1)
    unclipped.step.accumulation_order = AccumulationOrder::kLayer;
  const char* order =
      unclipped.step.gradient_accumulation_steps > 1 ? " --accumulation_order layer_major" : "";
  if (!waits_for_overflow)
    climb(unclipped, fmt::format(" --max_grad_norm 0 --update_in_backward{}", order), true);
  if (step.precision != Precision::kFloat16 && step.evaluation_precision != Precision::kFloat16) {
    SessionOptions bf16 = options;
    bf16.step.precision = Precision::kBfloat16;
    const std::string flag = step.precision == Precision::kBfloat16 ? "" : " --bf16";
    if (!flag.empty()) climb(bf16, flag, true);
    if (step.master_weights == MasterWeights::kFloat32) {
      bf16.step.master_weights = MasterWeights::kNone;
      climb(bf16, flag + " --master_weights none", true);
    }
  }
  for (Alternative& alternative : found) alternative.flags.erase(0, alternative.flags.find_first_not_of(' '));
  return found;
}

std::string format_forecast(const MemoryForecast& forecast) {
  const std::string trained = forecast.trainable_parameters == forecast.parameters
                                  ? ""
                                  : fmt::format(", {} trained", format_count(forecast.trainable_parameters));
  std::string text =
      fmt::format("Memory this run will take ({} parameters{}, planned in {:.0f} ms)\n",
                  format_count(forecast.parameters), trained, forecast.planning_seconds * 1000);
  text += "  by role, at the peak of the step\n" + rows_of(forecast.by_role);
  text += "  by component\n" + rows_of(over_all_layers(forecast.by_component));
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
  text += fmt::format("  {:<30}{:>14}   of {} ({})\n", "peak of the whole process",
                      format_bytes(forecast.process_peak_bytes()), format_bytes(forecast.budget_bytes),
                      forecast.fits() ? "fits" : "does not fit");
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
  return {{"fits", forecast.fits()},
          {"budget_bytes", forecast.budget_bytes},
          {"arenas", std::move(arenas)},
          {"arena_bytes", forecast.arena_bytes()},
          {"by_role", forecast.by_role},
          {"by_component", forecast.by_component},
          {"process_overhead_bytes", forecast.process_overhead_bytes},
          {"process_peak_bytes", forecast.process_peak_bytes()},
          {"parameters", forecast.parameters},
          {"trainable_parameters", forecast.trainable_parameters},
          {"planning_seconds", forecast.planning_seconds}};
}

std::string format_refusal(const MemoryForecast& forecast, const std::vector<Alternative>& alternatives) {
  std::string text =
      fmt::format("[memory] expected a plan of at most {}, got one of {}: {} too much; nothing was reserved.",
                  format_bytes(forecast.budget_bytes), format_bytes(forecast.process_peak_bytes()),
                  format_bytes(forecast.process_peak_bytes() - forecast.budget_bytes));
  for (const bool changes_numerics : {false, true}) {
    std::string rows;
    for (const Alternative& alternative : alternatives) {
      if (alternative.changes_numerics != changes_numerics) continue;
      rows += fmt::format("\n  {:>12}  {}", format_bytes(alternative.process_peak_bytes), alternative.flags);
    }
    if (rows.empty()) continue;
    text += changes_numerics ? "\nFits, but trains with other numbers:" : "\nFits, and trains the same:";
    text += rows;
  }
  if (alternatives.empty()) text += "\nNo combination of the known techniques fits.";
  const auto others = largest_other_processes(3);
  if (!others.empty()) {
    text += "\nOther processes that hold memory:";
    for (const ProcessMemory& other : others) {
      text +=
          fmt::format("\n  {:>12}  {} (pid {})", format_bytes(other.resident_bytes), other.name, other.pid);
    }
  }
  return text;
}

}  // namespace shoehorn
