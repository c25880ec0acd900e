// Draws plots as SVG for html_page.h: plain values in, one <svg> element out. Colours, fonts and line widths
// come from the page's style sheet, so a plot follows the page's light or dark mode.
//
//   LineChart chart{.title = "Loss", .x = {"step", Unit::kCount}, .y = {"loss"}};
//   chart.series.push_back({"train", {{1, 2.5}, {2, 2.1}}});
//   page.add_figure(draw(chart), "mean over the steps since the last entry");
//
// A plot is drawn several times, for the widths that a page has on a phone, a tablet and a desk: the page shows the drawing
// that fits, so that its texts are neither small nor cut. What the pointer rests on tells its values.
//
// All texts are escaped. A value that is not finite (or, on a logarithmic axis, not positive) is left out: a
// gap in a line, a missing bar. A plot without values says so. Up to kSeriesColors series have different
// colours; further ones reuse them, lines with other dashes.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shoehorn {

inline constexpr int64_t kSeriesColors = 8;

// The widths of a plot's drawings, in CSS pixels; the last is that of a page's column.
inline constexpr std::array<double, 3> kPlotWidths = {340, 560, 940};

// How the values of an axis are written: 0.25 · 1,250 · 1.50 GiB · 12.5 ms · 25 %. A share of 1 is 100 %.
enum class Unit : uint8_t { kNumber, kCount, kBytes, kSeconds, kShare };

// "1.50 GiB", "12.5 ms", "2 min 05 s", "0.0001", "12.5 %", "< 0.1 %", …
std::string format_value(double value, Unit unit);
// "+1.50 MiB", "-12.5 ms", "0 B".
std::string format_difference(double value, Unit unit);

struct PlotAxis {
  std::string title = {};
  Unit unit = Unit::kNumber;
  bool logarithmic = false;
  bool from_zero = false;  // the axis begins at 0 in any case
};

struct PlotPoint {
  double x;
  double y;
};

struct LineSeries {
  std::string name;
  std::vector<PlotPoint> points;  // in order of x
  bool has_dots = false;          // points are seen where they are few enough
};

// A vertical line at `x` with a label above the plot.
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

// Stacked layers, the first at the bottom. Layer l has the height values[i] from x[i] to x[i+1]; the last
// step is as wide as the one before it. For amounts that change at instants, such as memory.
struct AreaLayer {
  std::string name;
  std::vector<double> values;  // one per x; 0 or more
};

struct AreaChart {
  std::string title = {};
  PlotAxis x_axis = {};
  PlotAxis y_axis = {};
  std::vector<double> x = {};  // increasing
  std::vector<AreaLayer> layers = {};
  std::vector<PlotMark> marks = {};
};

// One horizontal bar per category and series, either side by side or stacked into one bar per category. Bars
// are horizontal so that category names can be long. The value (stacked: the sum) is written at the end of
// each bar.
struct BarSeries {
  std::string name;
  std::vector<double> values;  // one per category; 0 or more
};

enum class BarLayout : uint8_t { kGrouped, kStacked };

struct BarChart {
  std::string title = {};
  std::vector<std::string> categories = {};
  std::vector<BarSeries> series = {};
  BarLayout layout = BarLayout::kGrouped;
  std::vector<PlotMark> marks = {};  // behind the bars
  PlotAxis axis = {};
};

// A dot with its name beside it (where the names do not fit, a number that a list below explains) and, if `low` and `high`
// are given, an error bar from one to the other.
struct ScatterPoint {
  double x;
  double y;
  std::string name;
  double low = std::numeric_limits<double>::quiet_NaN();  // of y
  double high = std::numeric_limits<double>::quiet_NaN();
  size_t group = 0;  // index into ScatterChart::groups; selects the colour
};

struct ScatterChart {
  std::string title = {};
  PlotAxis x = {};
  PlotAxis y = {};
  std::vector<std::string> groups = {};  // names for the legend
  std::vector<ScatterPoint> points = {};
};

// The drawings for all widths, one after the other.
std::string draw(const LineChart& chart);
std::string draw(const AreaChart& chart);
std::string draw(const BarChart& chart);
std::string draw(const ScatterChart& chart);

// One drawing.
std::string draw(const LineChart& chart, double width);
std::string draw(const AreaChart& chart, double width);
std::string draw(const BarChart& chart, double width);
std::string draw(const ScatterChart& chart, double width);

}  // namespace shoehorn
