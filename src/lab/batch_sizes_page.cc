#include "lab/batch_sizes_page.h"

#include <fmt/format.h>

#include "lab/batch_sizes_text.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

PlotAxis batch_axis() {
  return {.title = "sequences in a micro-batch", .unit = Unit::kCount, .logarithmic = true};
}

void add_facts(HtmlPage& page, const BatchSizesResult& result) {
  const BatchSizeResult* best = result.best();
  if (best == nullptr) return;
  const auto memory = [](const BatchSizeResult& size) {
    return format_value(static_cast<double>(size.run.memory.training_bytes), Unit::kBytes);
  };
  page.add_facts({{"best batch", std::to_string(best->batch_size)},
                  {"its speed", fmt::format("{:.3f} samples/s", best->run.samples_per_second)},
                  {"its memory", memory(*best)}});
}

void add_speed(HtmlPage& page, const BatchSizesResult& result) {
  LineChart chart{
      .title = "samples a second", .x = batch_axis(), .y = {"samples a second", Unit::kNumber, false, true}};
  LineSeries measured{.name = "measured", .points = {}, .has_dots = true};
  for (const BatchSizeResult& size : result.sizes) {
    if (size.run.is_measured())
      measured.points.push_back({static_cast<double>(size.batch_size), size.run.samples_per_second});
  }
  chart.series.push_back(std::move(measured));
  if (const BatchSizeResult* best = result.best(); best != nullptr)
    chart.marks.push_back({static_cast<double>(best->batch_size), "best"});
  page.add_heading("Speed");
  page.add_figure(draw(chart), "Each dot is a batch size that was measured.");
}

void add_memory(HtmlPage& page, const BatchSizesResult& result) {
  LineChart chart{
      .title = "peak of the whole process", .x = batch_axis(), .y = {"bytes", Unit::kBytes, false, true}};
  LineSeries measured{.name = "measured", .points = {}, .has_dots = true};
  LineSeries predicted{.name = "predicted", .points = {}, .has_dots = true};
  for (const BatchSizeResult& size : result.sizes) {
    const auto batch = static_cast<double>(size.batch_size);
    if (size.run.is_measured())
      measured.points.push_back({batch, static_cast<double>(size.run.memory.training_bytes)});
    if (size.plan.peak_bytes > 0)
      predicted.points.push_back({batch, static_cast<double>(size.plan.peak_bytes)});
  }
  chart.series = {std::move(measured), std::move(predicted)};
  page.add_heading("Memory");
  page.add_figure(draw(chart),
                  "What was measured, and what the plan said, also of a batch that does not fit.");
}

}  // namespace

std::string batch_sizes_page(const BatchSizesResult& result) {
  HtmlPage page(fmt::format("Batch sizes of {}", result.options.model), batch_sizes_title(result));
  add_facts(page, result);
  add_speed(page, result);
  add_memory(page, result);
  page.add_heading("Table");
  page.add_table(html_table(batch_sizes_table(result)));
  for (const std::string& line : batch_sizes_remarks(result)) page.add_paragraph(line);
  page.add_heading("Multiples that products like");
  page.add_table(html_table(multiples_table(result.options.multiples)));
  page.add_table(html_table(batch_sizes_multiples(result)));
  return page.html();
}

}  // namespace shoehorn
