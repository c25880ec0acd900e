// SVG pieces that all plots share: the element, text, lines, legend. Lengths are CSS pixels of the unscaled plot; y grows
// downwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/plot.h"
#include "report/text_layout.h"

namespace shoehorn::svg {

// The drawings of one plot, one for each of kPlotWidths; the page's style sheet shows the one that fits.
std::string for_each_width(const std::function<std::string(double)>& draw);

// "12.3": coordinates to a tenth.
std::string number(double value);

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
std::string text(double x, double y, std::string_view content, Anchor anchor, std::string_view css_class);
// Lines below each other, the first at y.
std::string text_lines(double x, double y, const std::vector<std::string>& lines, Anchor anchor,
                       std::string_view css_class);
std::string line(double x1, double y1, double x2, double y2, std::string_view css_class);
// A vertical line that leaves out what stands in its way.
std::string line_around(double x, double top, double bottom, std::string_view css_class,
                        const std::vector<Box>& obstacles);
// `tooltip` is shown when the pointer rests on the rectangle.
std::string rectangle(double x, double y, double width, double height, std::string_view css_class,
                      std::string_view tooltip);

// "c3": the CSS class with the colour of series 3.
std::string color_class(size_t series);

struct Part {
  std::string body;
  double height = 0;
};
// The title from y = 0 down.
Part title(std::string_view text, double width);
// One key per series, in rows from `top` down. Empty for fewer than two series.
Part legend(const std::vector<std::string>& names, double width, double top);

// An <svg> element around `body`; title and description are for screen readers.
std::string element(double width, double height, std::string_view title, std::string_view description,
                    std::string_view body);
// The element of a plot without values.
std::string nothing(double width, std::string_view title, std::string_view description);

}  // namespace shoehorn::svg
