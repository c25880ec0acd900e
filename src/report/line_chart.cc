#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/framed_chart.h"
#include "report/html_page.h"

namespace shoehorn {

namespace {

// Above this many points a line is drawn through the extremes of each pixel.
constexpr size_t kMaxPoints = 120;
constexpr double kBandWidth = 6;    // least width of a stretch that shows its values
constexpr double kDotDistance = 8;  // least distance of two dots of a line

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

// Runs of points without a gap.
std::vector<std::vector<PlotPoint>> runs_of(const LineChart& chart, const LineSeries& series) {
  std::vector<std::vector<PlotPoint>> runs(1);
  for (const PlotPoint& point : series.points) {
    if (has_place(point.x, chart.x) && has_place(point.y, chart.y)) {
      runs.back().push_back(point);
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

std::string draw_series(const svg::Frame& frame, const LineChart& chart, size_t index) {
  const LineSeries& series = chart.series[index];
  std::string path;
  std::string dots;
  double last_dot = -kDotDistance;
  for (const std::vector<PlotPoint>& run : runs_of(chart, series)) {
    const std::vector<PlotPoint> points = series.points.size() <= kMaxPoints ? run : thinned(frame, run);
    for (size_t i = 0; i < points.size(); ++i)
      path += fmt::format("{}{}", i == 0 ? 'M' : 'L', at(frame, points[i]));
    for (const PlotPoint& point : points) {
      const double x = frame.x_at(point.x);
      if (points.size() > 1 && (!series.has_dots || x < last_dot + kDotDistance)) continue;
      last_dot = x;
      dots += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" class=\"dot {}\"/>\n", svg::number(x),
                          svg::number(frame.y_at(point.y)), svg::color_class(index));
    }
  }
  if (path.empty()) return {};
  const size_t dash = index / static_cast<size_t>(kSeriesColors);
  return fmt::format("<path d=\"{}\" class=\"line {}\"{}/>\n", path, svg::color_class(index),
                     dash == 0 ? "" : fmt::format(" stroke-dasharray=\"{} 3\"", 2 + 4 * dash)) +
         dots;
}

// What is told of an x: a line for each series that has a point there.
std::string told_at(const LineChart& chart, double x) {
  std::string text = fmt::format("{} {}", chart.x.title, format_value(x, chart.x.unit));
  for (const LineSeries& series : chart.series) {
    const auto point = std::lower_bound(series.points.begin(), series.points.end(), x,
                                        [](const PlotPoint& a, double b) { return a.x < b; });
    if (point == series.points.end() || point->x != x || !has_place(point->y, chart.y)) continue;
    text += fmt::format("\n{}{}{}", series.name, series.name.empty() ? "" : ": ",
                        format_value(point->y, chart.y.unit));
  }
  return text;
}

// Stretches of the x axis, each around the value that it tells.
std::string bands(const svg::Frame& frame, const LineChart& chart) {
  std::vector<double> all;
  for (const LineSeries& series : chart.series) {
    for (const PlotPoint& point : series.points) {
      if (has_place(point.x, chart.x) && has_place(point.y, chart.y)) all.push_back(point.x);
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<double> told;
  for (const double x : all) {
    if (told.empty() || frame.x_at(x) >= frame.x_at(told.back()) + kBandWidth) told.push_back(x);
  }
  std::string body;
  for (size_t i = 0; i < told.size(); ++i) {
    const double at = frame.x_at(told[i]);
    const double left = i == 0 ? frame.left : (frame.x_at(told[i - 1]) + at) / 2;
    const double right = i + 1 == told.size() ? frame.right : (at + frame.x_at(told[i + 1])) / 2;
    body += svg::band(frame, left, right, told_at(chart, told[i]));
  }
  return body;
}

}  // namespace

std::string draw(const LineChart& chart) {
  return svg::for_each_width([&chart](double width) { return draw(chart, width); });
}

std::string draw(const LineChart& chart, double width) {
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
                     width, [&](const svg::Frame& frame) {
                       svg::FramedBody body;
                       for (size_t i = 0; i < chart.series.size(); ++i)
                         body.below += draw_series(frame, chart, i);
                       body.above = bands(frame, chart);
                       return body;
                     });
}

}  // namespace shoehorn
