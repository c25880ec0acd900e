#include "fit/memory_refusal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format.h"
#include "base/plural.h"
#include "base/process.h"

namespace shoehorn {

namespace {

const char* heading_of(MathsChange change) {
  switch (change) {
    case MathsChange::kExact:
      return "Fits, with the same numbers:";
    case MathsChange::kRounding:
      return "Fits, with the same sums in another order:";
    case MathsChange::kNumerics:
      return "Fits, with other numbers:";
    case MathsChange::kAdapters:
      return "Fits, with adapters trained in place of the weights:";
  }
  return "";
}

std::string nothing_fits(const Alternatives& alternatives) {
  std::string text = alternatives.tried.empty()
                         ? "\nNothing is left to be changed."
                         : fmt::format("\nNothing that was tried fits, alone or together: {}.",
                                       fmt::join(alternatives.tried, ", "));
  if (alternatives.least) {
    text += fmt::format("\nThe least was {}{}{}.", format_bytes(alternatives.least->process_peak_bytes),
                        alternatives.least->flags.empty() ? "" : ", with ", alternatives.least->flags);
  }
  return text;
}

// The moment of the run at which most is alive; empty where no program runs.
std::string moment_text(const MemoryForecast& forecast) {
  const auto largest = std::ranges::max_element(forecast.phase_arenas, {}, &PhaseArenas::bytes);
  if (largest == forecast.phase_arenas.end() || largest->moment.empty()) return {};
  const bool trains =
      std::ranges::find(forecast.phase_arenas, "train", &PhaseArenas::name) != forecast.phase_arenas.end();
  return fmt::format("\nMost is alive in {}, at {}{}.", largest->name, largest->moment,
                     trains ? "; `shoehorn fit --why` with the same flags says what" : "");
}

// Whether the plan fits where no other process holds any of what the limit counts.
bool would_fit_alone(const MemoryForecast& forecast) {
  const MemoryLimitKind kind = forecast.limit.kind;
  const bool is_shared = kind == MemoryLimitKind::kMachine || kind == MemoryLimitKind::kCgroup ||
                         kind == MemoryLimitKind::kOvercommit;
  return is_shared && forecast.process_bytes() <= forecast.limit.limit_bytes / forecast.budget_ranks;
}

std::string other_processes(const MemoryLimit& limit) {
  std::string rows;
  for (const ProcessMemory& other : largest_other_processes(3, limit))
    rows += fmt::format("\n  {:>12}  {} (pid {})", format_bytes(other.resident_bytes), other.name, other.pid);
  return rows.empty() ? rows : "\nOther processes that hold memory:" + rows;
}

}  // namespace

std::string format_refusal(const MemoryForecast& forecast, const Alternatives& alternatives) {
  std::string text = fmt::format(
      "[memory] expected a plan of at most {} ({}{}), got one of {}: {} too much; nothing was reserved.",
      format_bytes(forecast.budget_bytes), describe(forecast.limit),
      forecast.budget_ranks > 1
          ? fmt::format(", which {} of a host share", plural(forecast.budget_ranks, "rank"))
          : "",
      format_bytes(forecast.process_bytes()), format_bytes(forecast.process_bytes() - forecast.budget_bytes));
  text += moment_text(forecast);
  std::optional<MathsChange> change;
  for (const Alternative& alternative : alternatives.fitting) {
    if (alternative.change != change) text += fmt::format("\n{}", heading_of(alternative.change));
    change = alternative.change;
    const std::string time = alternative.relative_seconds
                                 ? fmt::format("{:+.0f}%", 100 * (*alternative.relative_seconds - 1))
                                 : "";
    text += fmt::format("\n  {:>12}  {:>5}  {}", format_bytes(alternative.process_peak_bytes), time,
                        alternative.flags);
  }
  if (!alternatives.fitting.empty() && alternatives.fitting[0].relative_seconds)
    text +=
        "\nPercents: about so much longer is a step than as asked for; `shoehorn fit` has times of this machine.";
  if (alternatives.was_cut_short)
    text +=
        "\nThe search was cut short; `shoehorn fit` looks for faster ways to recompute until it has seen all.";
  if (alternatives.fitting.empty()) text += nothing_fits(alternatives);
  if (would_fit_alone(forecast)) text += other_processes(forecast.limit);
  return text;
}

}  // namespace shoehorn
