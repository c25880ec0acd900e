#include "lab/quality_page.h"

#include <fmt/format.h>

#include <limits>

#include "lab/quality_text.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

// Where the accuracy of a rung stands over a figure of its cost.
ScatterChart accuracy_over(const QualityResults& results, const char* title, PlotAxis axis,
                           double (*cost_of)(const QualityResult&)) {
  ScatterChart chart{.title = title, .x = std::move(axis), .y = {"evaluation accuracy"}};
  chart.groups = {"as the reference", "loses accuracy"};
  for (const QualityResult& rung : results.rungs) {
    if (!rung.is_measured()) continue;
    const Spread accuracy = rung.of(&TrainingRun::eval_accuracy);
    ScatterPoint point{.x = cost_of(rung), .y = accuracy.mean, .name = rung.rung.setting};
    if (accuracy.count > 1) {
      point.low = accuracy.low;
      point.high = accuracy.high;
    }
    point.group = results.reference().is_measured() && loses_accuracy(results, rung) ? 1 : 0;
    chart.points.push_back(std::move(point));
  }
  return chart;
}

double memory_of(const QualityResult& rung) {
  return rung.median_bytes(&TrainingRun::measured_bytes);
}

double time_of(const QualityResult& rung) {
  return rung.of(&TrainingRun::train_seconds).median;
}

void add_facts(HtmlPage& page, const QualityResults& results) {
  if (!results.reference().is_measured()) return;
  const QualityResult* fastest = nullptr;
  const QualityResult* smallest = nullptr;
  int64_t losing = 0;
  for (const QualityResult& rung : results.rungs) {
    if (!rung.is_measured()) continue;
    if (loses_accuracy(results, rung)) {
      ++losing;
      continue;
    }
    if (fastest == nullptr || time_of(rung) < time_of(*fastest)) fastest = &rung;
    if (smallest == nullptr || memory_of(rung) < memory_of(*smallest)) smallest = &rung;
  }
  const Spread accuracy = results.reference().of(&TrainingRun::eval_accuracy);
  page.add_facts(
      {{"reference", fmt::format("accuracy {:.4f} ± {:.4f}", accuracy.mean, accuracy.deviation)},
       {"settings that lose accuracy", std::to_string(losing)},
       {"fastest that does not: " + fastest->rung.setting, format_value(time_of(*fastest), Unit::kSeconds)},
       {"least memory without loss: " + smallest->rung.setting,
        format_value(memory_of(*smallest), Unit::kBytes)}});
}

}  // namespace

std::string quality_page(const QualityResults& results) {
  HtmlPage page("Quality of the techniques", quality_title(results));
  add_facts(page, results);
  page.add_heading("Accuracy");
  page.add_figure(draw(accuracy_over(results, "accuracy over memory",
                                     {"peak of the whole process", Unit::kBytes}, memory_of)),
                  "Means over the seeds; a line from the lowest to the highest run where there are several.");
  page.add_figure(
      draw(accuracy_over(results, "accuracy over time", {"training time", Unit::kSeconds}, time_of)),
      "Medians of the time, means of the accuracy, over the seeds.");
  page.add_heading("Table");
  page.add_table(html_table(quality_table(results)));
  for (const std::string& line : quality_remarks(results)) page.add_paragraph(line);
  page.add_heading("Flags");
  page.add_table(html_table(quality_flags(results)));
  page.add_paragraph(fmt::format("All share: {}", fmt::join(results.options.flags, " ")));
  return page.html();
}

}  // namespace shoehorn
