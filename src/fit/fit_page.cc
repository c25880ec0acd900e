#include "fit/fit_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "arguments/shell_word.h"
#include "base/format.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

std::string seconds_text(double seconds) {
  return format_value(seconds, Unit::kSeconds);
}

// With how uncertain it is, where that is known.
std::string step_text(const PlannedCandidate& plan) {
  return seconds_text(plan.step_seconds) + (plan.time.is_calibrated ? error_text(plan.time) : "");
}

void add_facts(HtmlPage& page, const FitReport& report) {
  if (!report.chosen) {
    page.add_facts({{"budget", format_bytes(report.budget_bytes)},
                    {"fits", "nothing"},
                    {"least budget", format_bytes(least_budget_bytes(report))}});
    return;
  }
  const PlannedCandidate& chosen = report.best[*report.chosen];
  const MeasuredStep* measured = measured_of(report, *report.chosen);
  const char* kind = measured != nullptr         ? "step, measured"
                     : chosen.time.is_calibrated ? "step, calibrated"
                                                 : "step, at least";
  std::vector<std::pair<std::string, std::string>> facts = {
      {"budget", format_bytes(report.budget_bytes)},
      {"peak of the process", format_bytes(chosen.process_bytes)},
      {kind, seconds_text(chosen_step_seconds(report))}};
  for (auto& fact : times_of_run(report)) facts.push_back(std::move(fact));
  if (chosen.time.sent) facts.emplace_back("sent in a step", link_bytes_text(*chosen.time.sent));
  facts.emplace_back("changes", tier_name(chosen.run.tier));
  page.add_facts(facts);
}

// The plans that were run beside each other, the chosen one first.
void add_measured(HtmlPage& page, const FitReport& report) {
  if (report.measured.empty() && report.not_measured.empty()) return;
  std::vector<MeasuredStep> steps = report.measured;
  std::stable_partition(steps.begin(), steps.end(),
                        [&](const MeasuredStep& step) { return step.index == report.chosen; });
  HtmlTable table{.columns = {{"step, measured", true}, {"step, planned", true}, {"peak", true}, {"flags"}}};
  for (const MeasuredStep& step : steps) {
    const PlannedCandidate& plan = report.best[step.index];
    table.rows.push_back({seconds_text(step.seconds), step_text(plan), format_bytes(plan.process_bytes),
                          added_flags_text(plan)});
  }
  page.add_heading("Measured, in turns");
  if (!table.rows.empty()) page.add_table(table);
  for (const UnmeasuredStep& step : report.not_measured) {
    page.add_paragraph(
        fmt::format("Not measured: {}: {}", added_flags_text(report.best[step.index]), step.reason));
  }
}

void add_frontier(HtmlPage& page, const FitReport& report) {
  const FitResult& result = report.result;
  LineSeries series{"plans that no other beats", {}, true};
  for (const PlannedCandidate& plan : result.frontier)
    series.points.push_back({static_cast<double>(plan.process_bytes), plan.step_seconds});
  std::reverse(series.points.begin(), series.points.end());
  LineChart chart{.title = "Time against memory",
                  .x = {"peak of the process", Unit::kBytes},
                  .y = {"a step", Unit::kSeconds, false, true},
                  .series = {std::move(series)}};
  const bool is_inside = !result.frontier.empty() &&
                         report.budget_bytes <= result.frontier.front().process_bytes &&
                         report.budget_bytes >= result.frontier.back().process_bytes;
  if (is_inside) chart.marks.push_back({static_cast<double>(report.budget_bytes), "budget"});
  page.add_heading("Less memory takes longer");
  page.add_figure(draw(chart), "Each dot is a plan. What is left of the budget's line fits.");
  HtmlTable table{.columns = {{"peak", true},
                              {"budget of " + format_bytes(report.budget_bytes)},
                              {"step", true},
                              {"changes"},
                              {"flags"}}};
  for (const PlannedCandidate& plan : frontier_with_chosen(report)) {
    const char* verdict = is_chosen(report, plan)                   ? "chosen"
                          : budget_for(plan) <= report.budget_bytes ? "fits"
                                                                    : "too large";
    table.rows.push_back({format_bytes(plan.process_bytes), verdict, step_text(plan),
                          std::string(tier_name(plan.run.tier)), added_flags_text(plan)});
  }
  page.add_table(table);
  page.add_paragraph(result.frontier.empty() || result.frontier.front().time.is_calibrated
                         ? "Times are calibrated on this machine (shoehorn calibrate)."
                         : "Times are lower bounds by the machine's rates; they are not calibrated.");
}

void add_binding(HtmlPage& page, const FitReport& report) {
  const MemoryAnatomy& binding = report.binding;
  BarSeries series{"bytes", {}};
  BarChart chart{.title = "Largest residents", .axis = {"", Unit::kBytes}};
  for (size_t i = 0; i < std::min(kShownResidents, binding.residents.size()); ++i) {
    chart.categories.push_back(binding.residents[i].name);
    series.values.push_back(static_cast<double>(binding.residents[i].bytes));
  }
  chart.series = {std::move(series)};
  page.add_heading(fmt::format("What binds, in {}", bound_plan_text(report)));
  page.add_figure(draw(chart),
                  fmt::format("At {}, of {}: {}.", binding_moment(report), format_bytes(binding.total_bytes),
                              added_flags_text(report.result.bound)));
}

void add_techniques(HtmlPage& page, const FitReport& report) {
  const FitResult& result = report.result;
  if (result.techniques.empty()) return;
  const PlannedCandidate& asked = result.techniques.front().plan;
  HtmlTable table{
      .columns = {
          {"technique"}, {"changes"}, {"peak", true}, {"memory", true}, {"step", true}, {"time", true}}};
  for (const TechniqueEffect& effect : result.techniques) {
    table.rows.push_back(
        {effect.name, std::string(tier_name(effect.plan.run.tier)), format_bytes(effect.plan.process_bytes),
         format_difference(static_cast<double>(effect.plan.process_bytes - asked.process_bytes),
                           Unit::kBytes),
         step_text(effect.plan), fmt::format("{:+.1f} %", 100 * added_time(asked, effect.plan))});
  }
  page.add_heading("What each technique buys alone");
  page.add_table(table);
}

// What the tier above those that are allowed would buy.
void add_above(HtmlPage& page, const FitReport& report) {
  const std::optional<PlannedCandidate>& above = report.result.above;
  if (!above) return;
  page.add_heading(fmt::format("With --allow {}", tiers_with_above(report)));
  page.add_table({.columns = {{"peak", true}, {"step", true}, {"changes"}, {"flags"}},
                  .rows = {{format_bytes(above->process_bytes), step_text(*above),
                            std::string(tier_name(above->run.tier)), added_flags_text(*above)}}});
  if (report.result.above_is_cut_short)
    page.add_paragraph("That search was cut short: with these changes allowed it may find more.");
}

void add_least(HtmlPage& page, const FitResult& result) {
  if (result.least.empty()) return;
  HtmlTable table{.columns = {{"changes up to"}, {"least budget", true}, {"flags"}}};
  for (const auto& [tier, plan] : result.least)
    table.rows.push_back(
        {std::string(tier_name(tier)), format_bytes(budget_for(plan)), added_flags_text(plan)});
  page.add_heading("Least budget of each tier");
  page.add_table(table);
}

}  // namespace

std::string fit_page(const FitReport& report) {
  HtmlPage page("The fastest settings that fit", shell_words(report.given));
  add_facts(page, report);
  add_measured(page, report);
  add_frontier(page, report);
  add_above(page, report);
  add_binding(page, report);
  add_techniques(page, report);
  add_least(page, report.result);
  if (report.chosen) {
    page.add_heading("To train");
    page.add_preformatted(shell_lines(train_command(report)));
  }
  return page.html();
}

}  // namespace shoehorn
