// The frame of a chart with two axes: title, legend, labels of marks, grid, axes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.h"
#include "report/plot.h"
#include "report/svg.h"

namespace shoehorn::svg {

// The drawing area.
struct Frame {
  double width;  // of the whole element
  double left, top, right, bottom;
  AxisTicks x, y;

  double x_at(double value) const { return left + (right - left) * x.position(value); }
  double y_at(double value) const { return bottom - (bottom - top) * y.position(value); }
};

struct FramedChart {
  std::string_view title;
  std::string description;
  std::vector<std::string> names;  // of the series
  const PlotAxis& x_axis;
  const PlotAxis& y_axis;
  const AxisRange& x_range;
  const AxisRange& y_range;
  const std::vector<PlotMark>& marks;
};

// What a chart draws into the frame: below the lines of the marks, and, where the pointer meets it, above them.
struct FramedBody {
  std::string below;
  std::string above = {};
  std::function<Part(double top)> under_plot = {};  // beneath the axis, from `top` down
};

// The whole element, `width` wide. Without values: a note instead.
std::string framed(const FramedChart& chart, double width,
                   const std::function<FramedBody(const Frame&)>& body);

// A stretch of the frame that shows `tooltip` where the pointer is in it.
std::string band(const Frame& frame, double left, double right, std::string_view tooltip);

}  // namespace shoehorn::svg
