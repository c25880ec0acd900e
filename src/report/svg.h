// SVG pieces that all plots share: the element, text, legend, and the frame with axes. Lengths are CSS pixels
// of the unscaled plot; y grows downwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.h"
#include "report/plot.h"

namespace shoehorn::svg {

inline constexpr double kWidth = 760;
inline constexpr double kLineHeight = 18;

// The width of a text at the plots' font size; a slight overestimate, since the reader chooses the font.
double text_width(std::string_view text);

// The text, or its beginning with "…" if it does not fit into `width`.
std::string shortened(std::string_view text, double width);

// "12.3": coordinates to a tenth.
std::string number(double value);

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
std::string text(double x, double y, std::string_view content, Anchor anchor, std::string_view css_class);
std::string line(double x1, double y1, double x2, double y2, std::string_view css_class);
// `tooltip` is shown when the pointer rests on the rectangle.
std::string rectangle(double x, double y, double width, double height, std::string_view css_class,
                      std::string_view tooltip);

// "c3": the CSS class with the colour of series 3.
std::string color_class(size_t series);

// The legend: one key per series, in rows from `top` down. Empty for fewer than two series.
struct Legend {
  std::string body;
  double height = 0;
};
Legend legend(const std::vector<std::string>& names, double left, double top);

// An <svg> element around `body`; title and description are for screen readers.
std::string element(double height, std::string_view title, std::string_view description,
                    std::string_view body);

// The drawing area of a chart with two axes.
struct Frame {
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

// The whole element: title, legend, grid, the output of `body`, axes, marks. Without values: a note instead.
std::string framed(const FramedChart& chart, const std::function<std::string(const Frame&)>& body);

}  // namespace shoehorn::svg
