// Plots as SVG for a page of html_page.h: plain values in, one <svg> element out. Colours, type and line
// widths come from the page's style sheet, so that a plot follows its light and dark form.
//
//   LineChart chart{.title = "Loss", .x = {"step", Unit::kCount}, .y = {"loss"}};
//   chart.series.push_back({"train", {{1, 2.5}, {2, 2.1}}});
//   page.add_figure(draw(chart), "mean over the steps since the last entry");
//
// Every text is escaped. A value that is not finite (on a logarithmic axis: not above zero) is left out: a
// gap in a line, a missing bar. A plot without any value says so. Up to kSeriesColors series have colours of
// their own; further ones repeat them, lines with another dash.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shoehorn {

inline constexpr int64_t kSeriesColors = 8;

// How values of an axis read: 0.25 · 1,250 · 1.50 GiB · 12.5 ms · 25 %. A share of 1 is 100 %.
enum class Unit : uint8_t { kNumber, kCount, kBytes, kSeconds, kShare };

// "1.50 GiB", "12.5 ms", "0.0001", …
std::string format_value(double value, Unit unit);

struct PlotAxis {
  std::string title = {};
  Unit unit = Unit::kNumber;
  bool logarithmic = false;
  bool from_zero = false;  // the axis begins at 0 whatever the values are
};

struct PlotPoint {
  double x;
  double y;
};

struct LineSeries {
  std::string name;
  std::vector<PlotPoint> points;  // in order of x
};

// A vertical line at `x` with a text at it.
struct PlotMark {
  double x;
  std::string label;
};

struct LineChart {
  std::string title = {};
  PlotAxis x = {};
  PlotAxis y = {};
  std::vector<LineSeries> series = {};
  std::vector<PlotMark> marks = {};
};

// Layers on top of each other, the first at the bottom; layer l is values[i] high from x[i] up to x[i+1]
// (the last one as wide as the one before it): amounts that change at instants, as memory does.
struct AreaLayer {
  std::string name;
  std::vector<double> values;  // as many as there are x; at least 0
};

struct AreaChart {
  std::string title = {};
  PlotAxis x_axis = {};
  PlotAxis y_axis = {};
  std::vector<double> x = {};  // increasing
  std::vector<AreaLayer> layers = {};
  std::vector<PlotMark> marks = {};
};

// One horizontal bar a category and series; grouped side by side, or stacked into one bar a category.
// Horizontal, so that the names of settings can be long. At the end of each bar (stacked: of the sum) stands
// its value.
struct BarSeries {
  std::string name;
  std::vector<double> values;  // as many as there are categories; at least 0
};

enum class BarLayout : uint8_t { kGrouped, kStacked };

struct BarChart {
  std::string title = {};
  std::vector<std::string> categories = {};
  std::vector<BarSeries> series = {};
  BarLayout layout = BarLayout::kGrouped;
  std::vector<PlotMark> marks = {};  // behind the bars, the text above them
  PlotAxis axis = {};
};

// A dot each, with its name beside it and, where `low` and `high` are given, a line from one to the other.
struct ScatterPoint {
  double x;
  double y;
  std::string name;
  double low = std::numeric_limits<double>::quiet_NaN();  // of y
  double high = std::numeric_limits<double>::quiet_NaN();
  size_t group = 0;  // of ScatterChart::groups: its colour
};

struct ScatterChart {
  std::string title = {};
  PlotAxis x = {};
  PlotAxis y = {};
  std::vector<std::string> groups = {};  // names for the legend
  std::vector<ScatterPoint> points = {};
};

std::string draw(const LineChart& chart);
std::string draw(const AreaChart& chart);
std::string draw(const BarChart& chart);
std::string draw(const ScatterChart& chart);

}  // namespace shoehorn
