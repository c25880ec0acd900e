#include "fit/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <tuple>

#include "arguments/shell_word.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"

namespace shoehorn {

namespace {

// The moment of the step in which the most is alive.
std::string phase_of(const MemoryAnatomy& anatomy) {
  const auto largest =
      std::max_element(anatomy.timeline.begin(), anatomy.timeline.end(),
                       [](const StepMoment& a, const StepMoment& b) { return a.live_bytes < b.live_bytes; });
  return largest == anatomy.timeline.end() ? anatomy.program : largest->name;
}

std::string format_binding(const FitReport& report, const std::string& of) {
  const PlannedCandidate& bound = report.result.bound;
  std::string text = fmt::format("What binds, in {}\n  {}, {}\n  {}\n", of, format_bytes(bound.process_bytes),
                                 added_flags_text(bound), binding_moment(report));
  const std::vector<NamedBytes>& residents = report.binding.residents;
  for (size_t i = 0; i < std::min(kShownResidents, residents.size()); ++i)
    text += fmt::format("    {:<40}{:>14}\n", residents[i].name, format_bytes(residents[i].bytes));
  return text;
}

// Between a step's seconds and what follows them: how uncertain they are, where that is known.
std::string error_column(bool is_calibrated, const std::string& error = {}) {
  return is_calibrated ? fmt::format("{:<8}", error) : "";
}

std::string row(const PlannedCandidate& plan, bool is_marked = false) {
  const StepTime& time = plan.time;
  return fmt::format("{} {:>9.3f} s{}{:>13}  {:<9}  {}\n", is_marked ? '>' : ' ', plan.step_seconds,
                     error_column(time.is_calibrated, error_text(time)), format_bytes(plan.process_bytes),
                     tier_name(plan.run.tier), added_flags_text(plan));
}

std::string heading(bool is_calibrated) {
  return fmt::format("  {:>11}{}{:>13}  {:<9}  {}\n", is_calibrated ? "step" : "step, least",
                     error_column(is_calibrated), "peak", "changes", "flags");
}

// With the budget between what is larger and what fits.
std::string format_frontier(const FitReport& report) {
  const std::vector<PlannedCandidate> rows = frontier_with_chosen(report);
  std::string text = "Less memory takes longer (>: chosen)\n";
  const bool is_calibrated = !rows.empty() && rows.front().time.is_calibrated;
  text += heading(is_calibrated);
  const std::string budget = fmt::format("  {:>11}{}{:>13}  the budget: what is below fits\n", "",
                                         error_column(is_calibrated), format_bytes(report.budget_bytes));
  bool is_below = false;
  for (const PlannedCandidate& plan : rows) {
    if (!is_below && budget_for(plan) <= report.budget_bytes) {
      text += budget;
      is_below = true;
    }
    text += row(plan, is_chosen(report, plan));
  }
  return is_below ? text : text + budget;
}

std::string format_least(const FitResult& result) {
  std::string text = fmt::format("Least budget that each tier of changes reaches\n  {:<10}{:>13}  flags\n",
                                 "changes", "budget");
  for (const auto& [tier, plan] : result.least) {
    text += fmt::format("  {:<10}{:>13}  {}\n", tier_name(tier), format_bytes(budget_for(plan)),
                        added_flags_text(plan));
  }
  return text;
}

std::string signed_bytes(int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", format_bytes(std::abs(bytes)));
}

std::string format_techniques(const FitResult& result) {
  if (result.techniques.empty()) return {};
  const PlannedCandidate& asked = result.techniques.front().plan;
  std::string text =
      fmt::format("What each technique buys alone\n  {:<40}{:>13}{:>15}{:>13}{:>10}\n", "", "peak",
                  "difference", asked.time.is_calibrated ? "step" : "step, least", "time");
  for (const TechniqueEffect& effect : result.techniques) {
    const PlannedCandidate& plan = effect.plan;
    const bool is_asked = &plan == &asked;
    text +=
        fmt::format("  {:<40}{:>13}{:>15}{:>11.3f} s{}\n", effect.name, format_bytes(plan.process_bytes),
                    is_asked ? "" : signed_bytes(plan.process_bytes - asked.process_bytes), plan.step_seconds,
                    is_asked ? "" : fmt::format("{:>+9.1f}%", 100 * added_time(asked, plan)));
  }
  return text;
}

// Those that make the run smaller: the least change of the maths first. Of each tier what takes no time comes first, the
// largest first, and then what takes the least time a byte.
std::string format_cheapest(const FitResult& result) {
  if (result.techniques.empty()) return {};
  const PlannedCandidate& asked = result.techniques.front().plan;
  std::vector<const TechniqueEffect*> smaller;
  for (const TechniqueEffect& effect : result.techniques) {
    if (effect.plan.process_bytes < asked.process_bytes) smaller.push_back(&effect);
  }
  const auto rank = [&](const TechniqueEffect* effect) {
    const PlannedCandidate& plan = effect->plan;
    const auto saved = static_cast<double>(asked.process_bytes - plan.process_bytes);
    const double seconds = plan.step_seconds - asked.step_seconds;
    return std::tuple(plan.run.tier, seconds > 0, seconds > 0 ? seconds / saved : -saved);
  };
  std::stable_sort(smaller.begin(), smaller.end(),
                   [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  std::string text = fmt::format(
      "What makes it smaller, alone, the cheapest of each tier first\n  {:<40}{:<9}{:>15}{:>12}  flags\n", "",
      "changes", "difference", "time");
  for (const TechniqueEffect* effect : smaller) {
    const PlannedCandidate& plan = effect->plan;
    text += fmt::format("  {:<40}{:<9}{:>15}{:>+10.3f} s  {}\n", effect->name, tier_name(plan.run.tier),
                        signed_bytes(plan.process_bytes - asked.process_bytes),
                        plan.step_seconds - asked.step_seconds, added_flags_text(plan));
  }
  return text;
}

// The value of --allow for these tiers; a tier above rounding has that with it.
std::string allow_text(const std::set<MathsChange>& tiers) {
  std::vector<std::string_view> names;
  for (const MathsChange tier : tiers) {
    const bool is_implied = tier <= MathsChange::kRounding && tier < *tiers.rbegin();
    if (!is_implied) names.push_back(tier_name(tier));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

std::string format_above(const FitReport& report) {
  const std::optional<PlannedCandidate>& above = report.result.above;
  if (!above) return {};
  return fmt::format(
      "\nWith --allow {}{}\n{}{}", tiers_with_above(report),
      report.result.above_is_cut_short ? ", which may find more: this search was cut short" : "",
      heading(above->time.is_calibrated), row(*above));
}

std::vector<std::string> all_flags(const FitReport& report, const PlannedCandidate& plan) {
  std::vector<std::string> flags = report.given;
  flags.insert(flags.end(), plan.run.flags.begin(), plan.run.flags.end());
  return flags;
}

double price_of(const FitReport& report, double seconds) {
  return seconds / 3600 * report.price_per_hour;
}

std::string epochs_text(double epochs) {
  constexpr double kWithoutFractions = 100;
  return epochs < kWithoutFractions ? fmt::format("{:.3g} epoch{}", epochs, epochs == 1 ? "" : "s")
                                    : fmt::format("{:.0f} epochs", epochs);
}

nlohmann::json plan_json(const FitReport& report, const PlannedCandidate& plan, std::optional<size_t> index) {
  const MeasuredStep* measured = index ? measured_of(report, *index) : nullptr;
  const double seconds = measured == nullptr ? plan.step_seconds : measured->seconds;
  nlohmann::json json = {
      {"flags", all_flags(report, plan)},
      {"added_flags", plan.run.flags},
      {"step_seconds", seconds},
      {"step_seconds_are", measured != nullptr       ? "measured"
                           : plan.time.is_calibrated ? "calibrated"
                                                     : "lower bound"},
      {"samples_per_second", seconds > 0 ? static_cast<double>(report.samples) / seconds : 0},
      {"arena_bytes", plan.arena_bytes},
      {"process_peak_bytes", plan.process_bytes},
      {"tier", tier_name(plan.run.tier)}};
  if (measured == nullptr && plan.time.is_calibrated) json["step_seconds_error"] = plan.time.error;
  if (plan.time.sent) {
    json["sent_in_step"] = to_json(plan.time.sent->kinds);
    json["sent_by_link"] = link_bytes_to_json(*plan.time.sent);
    json["messages"] = plan.time.messages ? to_json(*plan.time.messages) : nlohmann::json();
  }
  if (report.samples_in_epoch > 0) {
    const double epoch = epoch_seconds(report, seconds);
    json["epoch_seconds"] = epoch;
    json["run_seconds"] = report.epochs * epoch;
    if (report.price_per_hour > 0) {
      json["epoch_price"] = price_of(report, epoch);
      json["run_price"] = price_of(report, report.epochs * epoch);
    }
  }
  if (!report.device.empty()) json["validated"] = false;
  return json;
}

}  // namespace

const MeasuredStep* measured_of(const FitReport& report, size_t index) {
  const auto found = std::find_if(report.measured.begin(), report.measured.end(),
                                  [&](const MeasuredStep& step) { return step.index == index; });
  return found == report.measured.end() ? nullptr : &*found;
}

std::string added_flags_text(const PlannedCandidate& plan) {
  return plan.run.flags.empty() ? "as asked for" : shell_words(plan.run.flags);
}

int64_t least_budget_bytes(const FitReport& report) {
  return least_allowed_bytes(report) + kSparedBytes;
}

int64_t least_allowed_bytes(const FitReport& report) {
  const std::vector<PlannedCandidate>& frontier = report.result.frontier;
  CHECK(!frontier.empty(), "nothing was planned");
  int64_t least = std::ranges::min_element(frontier, {}, &PlannedCandidate::process_bytes)->process_bytes;
  for (const auto& [tier, plan] : report.result.least) {
    if (std::ranges::includes(report.allowed, plan.run.changes)) least = std::min(least, plan.process_bytes);
  }
  return least;
}

double added_time(const PlannedCandidate& asked, const PlannedCandidate& plan) {
  return asked.step_seconds > 0 ? plan.step_seconds / asked.step_seconds - 1 : 0;
}

double chosen_step_seconds(const FitReport& report) {
  const MeasuredStep* measured = measured_of(report, *report.chosen);
  return measured == nullptr ? report.best[*report.chosen].step_seconds : measured->seconds;
}

double epoch_seconds(const FitReport& report, double step_seconds) {
  return step_seconds * static_cast<double>(report.samples_in_epoch) / static_cast<double>(report.samples);
}

std::vector<std::pair<std::string, std::string>> times_of_run(const FitReport& report) {
  if (report.samples_in_epoch == 0) return {};
  const StepTime& planned = report.best[*report.chosen].time;
  const bool is_measured = measured_of(report, *report.chosen) != nullptr;
  const bool is_bound = !is_measured && !planned.is_calibrated;
  // Steps are too long together or too short together, so that the share is that of one.
  const std::string error = is_measured || is_bound ? "" : error_text(planned);
  const auto text_of = [&](double seconds) {
    return fmt::format("{}{}{}{}", is_bound ? "no less than " : "", format_seconds(seconds), error,
                       report.price_per_hour > 0
                           ? fmt::format(", {:.2f} at the price given", price_of(report, seconds))
                           : "");
  };
  const double epoch = epoch_seconds(report, chosen_step_seconds(report));
  return {{"epoch", text_of(epoch)},
          {"run of " + epochs_text(report.epochs), text_of(report.epochs * epoch)}};
}

bool is_chosen(const FitReport& report, const PlannedCandidate& plan) {
  return report.chosen && plan.run.flags == report.best[*report.chosen].run.flags;
}

std::vector<PlannedCandidate> frontier_with_chosen(const FitReport& report) {
  std::vector<PlannedCandidate> rows = report.result.frontier;
  const auto is_it = [&](const PlannedCandidate& plan) { return is_chosen(report, plan); };
  if (!report.chosen || std::ranges::any_of(rows, is_it)) return rows;
  const PlannedCandidate& chosen = report.best[*report.chosen];
  const auto smaller = std::ranges::find_if(
      rows, [&](const PlannedCandidate& plan) { return plan.process_bytes < chosen.process_bytes; });
  rows.insert(smaller, chosen);
  return rows;
}

std::string bound_plan_text(const FitReport& report) {
  const PlannedCandidate& bound = report.result.bound;
  if (budget_for(bound) > report.budget_bytes) return "the fastest plan that does not fit";
  return is_chosen(report, bound) ? "the chosen plan" : "another plan that fits";
}

std::string binding_moment(const FitReport& report) {
  return fmt::format("{}: {}", report.binding.run_phase, report.binding.peak_node);
}

std::string tiers_with_above(const FitReport& report) {
  CHECK(report.result.above, "no tier above buys anything");
  std::set<MathsChange> tiers = report.allowed;
  tiers.insert(report.result.above->run.tier);
  return allow_text(tiers);
}

std::string tiers_to_allow(const FitReport& report) {
  const int64_t least = least_allowed_bytes(report);
  std::set<MathsChange> tiers;
  for (const auto& [tier, plan] : report.result.least) {
    const bool is_new = !report.allowed.contains(tier) && plan.run.changes.contains(tier);
    if (is_new && plan.process_bytes < least) tiers.insert(tier);
  }
  if (tiers.empty()) return {};
  tiers.insert(report.allowed.begin(), report.allowed.end());
  return allow_text(tiers);
}

std::vector<std::string> chosen_flags(const FitReport& report) {
  return all_flags(report, report.best[*report.chosen]);
}

std::vector<std::string> train_command(const std::vector<std::string>& flags, int64_t ranks) {
  std::vector<std::string> command = {"shoehorn"};
  if (ranks > 1) command.insert(command.end(), {"launch", "--nproc_per_node", std::to_string(ranks)});
  command.emplace_back("train");
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

std::vector<std::string> train_command(const FitReport& report) {
  const FitCandidate& chosen = report.best[*report.chosen].run;
  std::vector<std::string> flags = report.given_to_train;
  flags.insert(flags.end(), chosen.flags.begin(), chosen.flags.end());
  return train_command(flags, chosen.arguments.world_size);
}

std::string format_train_command(const std::vector<std::string>& command) {
  return fmt::format("{}  {}\n", kTrainCommandHeading, shell_words(command));
}

std::string format_fit(const FitReport& report) {
  const FitResult& result = report.result;
  const PlannedCandidate& chosen = report.best[*report.chosen];
  const MeasuredStep* measured = measured_of(report, *report.chosen);
  const bool may_measure = report.may_measure && report.not_measured.empty();
  std::string text =
      fmt::format("Fits {}, as {} of {} {}\n", format_bytes(report.budget_bytes), result.fitting.size(),
                  plural(result.plans, "plan"), result.fitting.size() == 1 ? "does" : "do");
  text +=
      fmt::format("  changes              {} ({})\n", added_flags_text(chosen), tier_name(chosen.run.tier));
  text += fmt::format("  peak of the process  {}\n", format_bytes(chosen.process_bytes));
  if (measured != nullptr) {
    text += fmt::format("  step                 {:.3f} s, measured; {}\n", measured->seconds,
                        format_step_time(chosen.time));
  } else {
    text += fmt::format("  step                 {}{}\n", format_step_time(chosen.time),
                        may_measure ? "; --verify 3 measures" : "");
  }
  if (chosen.time.sent)
    text += fmt::format("  sent in a step       {}\n", link_bytes_text(*chosen.time.sent));
  for (const auto& [what, time] : times_of_run(report)) text += fmt::format("  {:<20} {}\n", what, time);
  for (const MeasuredStep& other : report.measured) {
    if (other.index == *report.chosen) continue;
    text += fmt::format("  beside it            {:.3f} s, measured: {}\n", other.seconds,
                        added_flags_text(report.best[other.index]));
  }
  for (const UnmeasuredStep& other : report.not_measured) {
    text += fmt::format("  not measured         {}: {}\n", added_flags_text(report.best[other.index]),
                        other.reason);
  }
  text += fmt::format("\n{}\n{}{}", format_binding(report, bound_plan_text(report)), format_frontier(report),
                      format_above(report));
  return fmt::format("{}\n{}\n{}{}", text, format_techniques(result), format_least(result),
                     format_train_command(train_command(report)));
}

std::string format_no_fit(const FitReport& report) {
  const FitResult& result = report.result;
  const std::string tiers = tiers_to_allow(report);
  return fmt::format(
      "[memory_budget] expected at least {} for this run with changes of the tiers that are allowed, got {}: none of {} "
      "plans fits; give more{}\n\n{}\n{}\n{}{}",
      format_bytes(least_budget_bytes(report)), format_bytes(report.budget_bytes), result.plans,
      tiers.empty() ? "" : fmt::format(", or allow more (--allow {})", tiers),
      format_binding(report, bound_plan_text(report)), format_least(result), format_cheapest(result),
      format_above(report));
}

std::string format_sweep(const std::vector<PlannedCandidate>& curve) {
  std::string text = "The fastest plan of each budget, and the least budget\n";
  text += heading(!curve.empty() && curve.front().time.is_calibrated);
  for (const PlannedCandidate& plan : curve) text += row(plan);
  return text;
}

std::string format_why(const FitReport& report) {
  const FitResult& result = report.result;
  const PlannedCandidate& asked = result.fitting.front();
  return fmt::format("{} of {}, a step takes {}\n\n{}\n{}", format_bytes(asked.process_bytes),
                     format_bytes(report.budget_bytes), format_step_time(asked.time),
                     format_binding(report, "the run as asked for"), format_techniques(result));
}

nlohmann::json to_json(const FitReport& report, const std::vector<PlannedCandidate>& plans) {
  nlohmann::json list = nlohmann::json::array();
  for (const PlannedCandidate& plan : plans) list.push_back(plan_json(report, plan, std::nullopt));
  return list;
}

nlohmann::json to_json(const FitReport& report) {
  const FitResult& result = report.result;
  const nlohmann::json frontier = to_json(report, result.frontier);
  nlohmann::json least = nlohmann::json::object();
  nlohmann::json least_arenas = nlohmann::json::object();
  nlohmann::json least_flags = nlohmann::json::object();
  for (const auto& [tier, plan] : result.least) {
    least[std::string(tier_name(tier))] = budget_for(plan);
    least_arenas[std::string(tier_name(tier))] = plan.arena_bytes;
    least_flags[std::string(tier_name(tier))] = all_flags(report, plan);
  }
  nlohmann::json residents = nlohmann::json::array();
  for (size_t i = 0; i < std::min(kShownResidents, report.binding.residents.size()); ++i) {
    const NamedBytes& part = report.binding.residents[i];
    residents.push_back({{"name", part.name}, {"bytes", part.bytes}});
  }
  const nlohmann::json of = {{"added_flags", result.bound.run.flags},
                             {"process_peak_bytes", result.bound.process_bytes},
                             {"fits", budget_for(result.bound) <= report.budget_bytes}};
  nlohmann::json not_measured = nlohmann::json::array();
  for (const UnmeasuredStep& step : report.not_measured) {
    not_measured.push_back({{"added_flags", report.best[step.index].run.flags}, {"reason", step.reason}});
  }
  nlohmann::json techniques = nlohmann::json::array();
  for (const TechniqueEffect& effect : result.techniques) {
    techniques.push_back({{"name", effect.name},
                          {"flags", effect.plan.run.flags},
                          {"arena_bytes", effect.plan.arena_bytes},
                          {"process_peak_bytes", effect.plan.process_bytes},
                          {"step_seconds", effect.plan.step_seconds},
                          {"tier", tier_name(effect.plan.run.tier)}});
  }
  return {{"chosen",
           report.chosen ? plan_json(report, report.best[*report.chosen], report.chosen) : nlohmann::json()},
          {"not_measured", not_measured},
          {"budget_bytes", report.budget_bytes},
          {"frontier", frontier},
          {"binding",
           {{"of", of},
            {"run_phase", report.binding.run_phase},
            {"phase", phase_of(report.binding)},
            {"op", report.binding.peak_node},
            {"residents", residents}}},
          {"least_budget_bytes", least},
          {"least_budget_arena_bytes", least_arenas},
          {"least_budget_flags", least_flags},
          {"above", result.above ? plan_json(report, *result.above, std::nullopt) : nlohmann::json()},
          {"techniques", techniques},
          {"plans", result.plans}};
}

}  // namespace shoehorn
