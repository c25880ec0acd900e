#include "lab/ladder_page.h"

#include <fmt/format.h>

#include <limits>

#include "lab/ladder_text.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

double bytes_or_nothing(int64_t bytes) {
  return bytes > 0 ? static_cast<double>(bytes) : kNoValue;
}

// The measured rung for which `value` is largest; null where none was measured.
template <typename Value>
const RungResult* largest(const LadderResult& result, Value value) {
  const RungResult* found = nullptr;
  for (const RungResult& rung : result.rungs) {
    if (!rung.ours.is_measured()) continue;
    if (found == nullptr || value(rung) > value(*found)) found = &rung;
  }
  return found;
}

void add_facts(HtmlPage& page, const LadderResult& result) {
  const RungResult* fastest = largest(result, [](const RungResult& r) { return r.ours.samples_per_second; });
  const RungResult* smallest =
      largest(result, [](const RungResult& r) { return -r.ours.memory.training_bytes; });
  const RungResult* reference = reference_rung(result);
  if (reference == nullptr) return;
  const auto speed = [](const RungResult& rung) {
    return fmt::format("{:.3f} samples/s", rung.ours.samples_per_second);
  };
  const auto memory = [](const RungResult& rung) {
    return format_value(static_cast<double>(rung.ours.memory.training_bytes), Unit::kBytes);
  };
  page.add_facts({{reference->rung.setting, speed(*reference) + ", " + memory(*reference)},
                  {"fastest: " + fastest->rung.setting, speed(*fastest)},
                  {"least memory: " + smallest->rung.setting, memory(*smallest)}});
}

// A bar a rung and series; the first measured rung's value of the first series as a line.
std::string draw_bars(const LadderResult& result, const char* title, Unit unit,
                      std::vector<BarSeries> series) {
  BarChart chart{.title = title, .axis = {"", unit}};
  for (size_t r = 0; r < result.rungs.size(); ++r) {
    chart.categories.push_back(result.rungs[r].rung.setting);
    if (&result.rungs[r] == reference_rung(result))
      chart.marks.push_back({series[0].values[r], result.rungs[r].rung.setting});
  }
  chart.series = std::move(series);
  return draw(chart);
}

void add_speed(HtmlPage& page, const LadderResult& result) {
  BarSeries ours{"Shoehorn", {}};
  BarSeries theirs{"Hugging Face Trainer", {}};
  for (const RungResult& rung : result.rungs) {
    ours.values.push_back(rung.ours.is_measured() ? rung.ours.samples_per_second : kNoValue);
    theirs.values.push_back(rung.theirs && rung.theirs->is_measured() ? rung.theirs->samples_per_second
                                                                      : kNoValue);
  }
  std::vector<BarSeries> series = {ours};
  if (result.options.has_peer()) series.push_back(theirs);
  page.add_heading("Speed");
  page.add_figure(draw_bars(result, "samples a second", Unit::kNumber, series),
                  "Longer is faster. The line is the setting that the others are compared with.");
}

void add_memory(HtmlPage& page, const LadderResult& result) {
  BarSeries measured{"measured", {}};
  BarSeries predicted{"predicted", {}};
  BarSeries theirs{"Hugging Face Trainer", {}};
  for (const RungResult& rung : result.rungs) {
    measured.values.push_back(bytes_or_nothing(rung.ours.memory.training_bytes));
    predicted.values.push_back(bytes_or_nothing(rung.predicted_bytes()));
    theirs.values.push_back(rung.theirs ? bytes_or_nothing(rung.theirs->memory.training_bytes) : kNoValue);
  }
  std::vector<BarSeries> series = {measured, predicted};
  if (result.options.has_peer()) series.push_back(theirs);
  page.add_heading("Memory");
  page.add_figure(draw_bars(result, "peak of the whole process", Unit::kBytes, series),
                  "Shorter is better. What was measured, and what the plan said before the run.");
}

void add_notes(HtmlPage& page, const LadderResult& result) {
  const std::vector<LadderNote> notes = ladder_notes(result);
  if (notes.empty()) return;
  HtmlTable table{.columns = {{"setting"}, {"who"}, {"what"}}};
  for (const LadderNote& note : notes) table.rows.push_back({note.setting, note.who, note.text});
  page.add_heading("Not run, or run otherwise");
  page.add_table(table);
}

}  // namespace

std::string ladder_page(const LadderResult& result) {
  HtmlPage page(fmt::format("Ladder of {}", result.options.model), ladder_title(result));
  add_facts(page, result);
  add_speed(page, result);
  add_memory(page, result);
  page.add_heading("Table");
  page.add_table(html_table(ladder_table(result)));
  page.add_table(html_table(ladder_stages(result)));
  for (const std::string& line : ladder_remarks(result)) page.add_paragraph(line);
  add_notes(page, result);
  page.add_heading("Flags");
  page.add_table(html_table(ladder_flags(result)));
  return page.html();
}

}  // namespace shoehorn
