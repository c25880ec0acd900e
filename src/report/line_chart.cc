#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/html_page.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

// Above this many points a line is drawn through the extremes of each pixel, and points have no tooltips.
constexpr size_t kMaxDots = 120;

std::string at(const svg::Frame& frame, const PlotPoint& point) {
  return svg::number(frame.x_at(point.x)) + " " + svg::number(frame.y_at(point.y));
}

// Of each column of pixels the first, lowest, highest and last point: the same picture with fewer points.
std::vector<PlotPoint> thinned(const svg::Frame& frame, const std::vector<PlotPoint>& points) {
  std::vector<PlotPoint> kept;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin + 1;
    const double column = std::floor(frame.x_at(points[begin].x));
    while (end < points.size() && std::floor(frame.x_at(points[end].x)) == column) ++end;
    const auto [low, high] = std::minmax_element(points.begin() + static_cast<int64_t>(begin),
                                                 points.begin() + static_cast<int64_t>(end),
                                                 [](const auto& a, const auto& b) { return a.y < b.y; });
    std::vector<size_t> chosen = {begin, static_cast<size_t>(low - points.begin()),
                                  static_cast<size_t>(high - points.begin()), end - 1};
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const size_t i : chosen) kept.push_back(points[i]);
    begin = end;
  }
  return kept;
}

std::string dot(const svg::Frame& frame, const LineChart& chart, const LineSeries& series,
                const PlotPoint& point, size_t index, bool visible) {
  return fmt::format(
      "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{} {}\"><title>{}</title></circle>\n",
      svg::number(frame.x_at(point.x)), svg::number(frame.y_at(point.y)), visible ? 3 : 6,
      visible ? "dot" : "touch", svg::color_class(index),
      escape_html(fmt::format("{}{}{} {}: {}", series.name, series.name.empty() ? "" : ", ", chart.x.title,
                              format_value(point.x, chart.x.unit), format_value(point.y, chart.y.unit))));
}

std::string draw_series(const svg::Frame& frame, const LineChart& chart, size_t index) {
  const LineSeries& series = chart.series[index];
  // Runs of points without a gap.
  std::vector<std::vector<PlotPoint>> runs(1);
  for (const PlotPoint& point : series.points) {
    if (has_place(point.x, chart.x) && has_place(point.y, chart.y)) {
      runs.back().push_back(point);
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  std::string path;
  std::string dots;
  const bool few = series.points.size() <= kMaxDots;
  for (const std::vector<PlotPoint>& run : runs) {
    const std::vector<PlotPoint> points = few ? run : thinned(frame, run);
    for (size_t i = 0; i < points.size(); ++i)
      path += fmt::format("{}{}", i == 0 ? 'M' : 'L', at(frame, points[i]));
    for (const PlotPoint& point : points) {
      if (few || points.size() == 1) dots += dot(frame, chart, series, point, index, points.size() == 1);
    }
  }
  if (path.empty()) return {};
  const size_t dash = index / static_cast<size_t>(kSeriesColors);
  return fmt::format("<path d=\"{}\" class=\"line {}\"{}/>\n", path, svg::color_class(index),
                     dash == 0 ? "" : fmt::format(" stroke-dasharray=\"{} 3\"", 2 + 4 * dash)) +
         dots;
}

}  // namespace

std::string draw(const LineChart& chart) {
  AxisRange x_range(chart.x);
  AxisRange y_range(chart.y);
  std::vector<std::string> names;
  std::string description;
  for (const LineSeries& series : chart.series) {
    names.push_back(series.name);
    for (const PlotPoint& point : series.points) {
      if (!has_place(point.x, chart.x) || !has_place(point.y, chart.y)) continue;
      x_range.add(point.x);
      y_range.add(point.y);
    }
    description += fmt::format("{}{}: {} points", description.empty() ? "Lines. " : "; ", series.name,
                               series.points.size());
  }
  return svg::framed({chart.title, description, names, chart.x, chart.y, x_range, y_range, chart.marks},
                     [&](const svg::Frame& frame) {
                       std::string body;
                       for (size_t i = 0; i < chart.series.size(); ++i) body += draw_series(frame, chart, i);
                       return body;
                     });
}

}  // namespace shoehorn
