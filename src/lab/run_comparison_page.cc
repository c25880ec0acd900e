#include "lab/run_comparison_page.h"

#include <fmt/format.h>

#include <limits>

#include "lab/run_comparison_text.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

// A line for each run that logged the metric.
void add_curves(HtmlPage& page, const RunComparison& comparison, const std::string& title,
                const std::string& metric, const char* caption) {
  LineChart chart{.title = title, .x = {"step", Unit::kCount}};
  bool is_empty = true;
  for (const ComparedRun& run : comparison.runs) {
    LineSeries series{.name = run.name, .points = {}, .has_dots = metric.starts_with("eval_")};
    if (run.state) {
      for (const Metrics& entry : run.state->log_history) {
        if (const auto found = entry.find(metric); found != entry.end())
          series.points.push_back({metric_number(entry.at("step")), metric_number(found->second)});
      }
    }
    is_empty &= series.points.empty();
    chart.series.push_back(std::move(series));  // also an empty one: a run has one colour on the whole page
  }
  if (!is_empty) page.add_figure(draw(chart), caption);
}

BarSeries bars_of(const RunComparison& comparison, const char* name, const char* metric) {
  BarSeries series{name, {}};
  for (const ComparedRun& run : comparison.runs)
    series.values.push_back(final_value(run, metric).value_or(std::numeric_limits<double>::quiet_NaN()));
  return series;
}

void add_bars(HtmlPage& page, const RunComparison& comparison, const char* title, Unit unit,
              std::vector<BarSeries> series, const char* caption) {
  BarChart chart{.title = title, .axis = {"", unit}};
  for (const ComparedRun& run : comparison.runs) chart.categories.push_back(run.name);
  chart.series = std::move(series);
  page.add_figure(draw(chart), caption);
}

}  // namespace

std::string comparison_page(const RunComparison& comparison) {
  std::vector<std::string> names;
  for (const ComparedRun& run : comparison.runs) names.push_back(run.name);
  HtmlPage page("Comparison of runs", fmt::format("{}", fmt::join(names, ", ")));
  page.add_heading("Results");
  page.add_table(html_table(comparison_results(comparison)));
  for (const std::string& line : comparison_remarks(comparison)) page.add_paragraph(line + ".");
  page.add_heading("Arguments");
  const TextTable arguments = comparison_arguments(comparison);
  if (arguments.rows.empty()) {
    page.add_paragraph(no_difference_text(comparison));
  } else {
    page.add_table(html_table(arguments));
  }
  page.add_heading("Over the steps");
  add_curves(page, comparison, "Training loss", "loss", "Mean over the steps since the last log entry.");
  for (const std::string& metric : comparison.evaluation_metrics())
    add_curves(page, comparison, metric, metric, "A dot is an evaluation.");
  page.add_heading("Memory and time");
  add_bars(page, comparison, "Peak of the process", Unit::kBytes,
           {bars_of(comparison, "measured", "memory_process_measured_bytes"),
            bars_of(comparison, "predicted", "memory_process_predicted_bytes")},
           "As measured, and as predicted before the first step.");
  add_bars(page, comparison, "Training time", Unit::kSeconds, {bars_of(comparison, "", "train_runtime")},
           "With evaluations and checkpoints.");
  return page.html();
}

}  // namespace shoehorn
