#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

constexpr double kBarHeight = 15;
constexpr double kBarGap = 2;
constexpr double kCategoryGap = 12;
constexpr double kMaxLabelWidth = 300;

double amount(double value, const PlotAxis& axis) {
  return has_place(value, axis) ? std::max(0.0, value) : 0;
}

double sum_of(const BarChart& chart, size_t category) {
  double sum = 0;
  for (const BarSeries& series : chart.series) sum += amount(series.values[category], chart.axis);
  return sum;
}

std::string tooltip(const BarChart& chart, size_t category, size_t series) {
  const BarSeries& of = chart.series[series];
  return fmt::format("{}{}{}: {}", chart.categories[category], of.name.empty() ? "" : ", ", of.name,
                     format_value(of.values[category], chart.axis.unit));
}

struct Rows {
  double left, right;  // of the bars
  AxisTicks ticks;
  double x_at(double value) const {
    return left + (right - left) * std::clamp(ticks.position(value), 0.0, 1.0);
  }
};

std::string stacked_row(const BarChart& chart, const Rows& rows, size_t category, double y) {
  std::string body;
  double sum = 0;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const double value = amount(chart.series[s].values[category], chart.axis);
    if (value == 0) continue;
    const double from = sum == 0 ? rows.left : rows.x_at(sum);
    sum += value;
    body += svg::rectangle(from, y, rows.x_at(sum) - from, kBarHeight, "bar " + svg::color_class(s),
                           tooltip(chart, category, s));
  }
  const double end = sum == 0 ? rows.left : rows.x_at(sum);
  return body + svg::text(end + 6, y + 12, format_value(sum, chart.axis.unit), svg::Anchor::kStart, "value");
}

std::string grouped_rows(const BarChart& chart, const Rows& rows, size_t category, double y) {
  std::string body;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const double value = chart.series[s].values[category];
    const bool is_drawn = has_place(value, chart.axis);
    const double end = is_drawn ? rows.x_at(value) : rows.left;
    if (is_drawn) {
      body += svg::rectangle(rows.left, y, std::max(1.0, end - rows.left), kBarHeight,
                             "bar " + svg::color_class(s), tooltip(chart, category, s));
    }
    body += svg::text(end + 6, y + 12, is_drawn ? format_value(value, chart.axis.unit) : "–",
                      svg::Anchor::kStart, "value");
    y += kBarHeight + kBarGap;
  }
  return body;
}

// Lines behind the bars from `top` to `bottom`, each with its text above it.
std::string marks_behind(const BarChart& chart, const Rows& rows, double top, double bottom) {
  std::string body;
  for (const PlotMark& mark : chart.marks) {
    if (!has_place(mark.x, chart.axis)) continue;
    const double x = rows.x_at(mark.x);
    const double half = svg::text_width(mark.label) / 2;
    body += svg::line(x, top, x, bottom, "mark");
    body += svg::text(
        std::clamp(x, std::min(half, svg::kWidth / 2), std::max(svg::kWidth - half, svg::kWidth / 2)),
        top - 4, mark.label, svg::Anchor::kMiddle, "marktext");
  }
  return body;
}

}  // namespace

std::string draw(const BarChart& chart) {
  const bool stacked = chart.layout == BarLayout::kStacked;
  CHECK(!stacked || !chart.axis.logarithmic, "parts of a sum have no logarithmic axis");
  std::vector<std::string> names;
  AxisRange range(chart.axis);
  double value_width = svg::text_width("–");
  for (const BarSeries& series : chart.series) {
    CHECK(series.values.size() == chart.categories.size(), "series {} has {} values for {} categories",
          series.name, series.values.size(), chart.categories.size());
    names.push_back(series.name);
    for (size_t c = 0; c < series.values.size(); ++c) {
      const double value = stacked ? sum_of(chart, c) : series.values[c];
      range.add(value);
      value_width = std::max(value_width, svg::text_width(format_value(value, chart.axis.unit)));
    }
  }
  for (const PlotMark& mark : chart.marks) range.add(mark.x);
  const std::string description = fmt::format("Bars of {}", fmt::join(chart.categories, ", "));
  std::string body = svg::text(0, 14, chart.title, svg::Anchor::kStart, "title");
  if (range.is_empty()) {
    body += svg::text(0, 40, "no values", svg::Anchor::kStart, "tick");
    return svg::element(56, chart.title, description, body);
  }

  double label_width = 0;
  for (const std::string& category : chart.categories)
    label_width = std::max(label_width, svg::text_width(category));
  PlotAxis axis = chart.axis;
  axis.from_zero = true;
  Rows rows{.left = std::min(label_width, kMaxLabelWidth) + 10,
            .right = svg::kWidth - value_width - 10,
            .ticks = make_ticks(range.low(), range.high(), axis, 6)};

  const svg::Legend keys = svg::legend(names, 0, 26);
  body += keys.body;
  const double top = 26 + keys.height + (chart.marks.empty() ? 4 : svg::kLineHeight);
  const double bars = stacked ? 1 : static_cast<double>(chart.series.size());
  const double row_height = bars * kBarHeight + (bars - 1) * kBarGap + kCategoryGap;
  const double bottom = top + row_height * static_cast<double>(chart.categories.size());
  for (size_t i = 0; i < rows.ticks.at.size(); ++i) {
    const double x = rows.x_at(rows.ticks.at[i]);
    body += svg::line(x, top, x, bottom, "grid");
    body += svg::text(x, bottom + 16, rows.ticks.labels[i], svg::Anchor::kMiddle, "tick");
  }
  body += marks_behind(chart, rows, top, bottom);
  for (size_t c = 0; c < chart.categories.size(); ++c) {
    const double y = top + row_height * static_cast<double>(c) + kCategoryGap / 2;
    const double middle = y + (row_height - kCategoryGap) / 2;
    body += svg::text(rows.left - 8, middle + 4, svg::shortened(chart.categories[c], kMaxLabelWidth),
                      svg::Anchor::kEnd, "category");
    body += stacked ? stacked_row(chart, rows, c, y) : grouped_rows(chart, rows, c, y);
  }
  body += svg::line(rows.left, top, rows.left, bottom, "axis");
  double height = bottom + 24;
  if (!chart.axis.title.empty()) {
    body += svg::text((rows.left + rows.right) / 2, bottom + 34, chart.axis.title, svg::Anchor::kMiddle,
                      "axistitle");
    height += svg::kLineHeight;
  }
  return svg::element(height, chart.title, description, body);
}

}  // namespace shoehorn
