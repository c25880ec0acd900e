#include "report/svg.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/html_page.h"

namespace shoehorn::svg {

namespace {

constexpr double kKeySize = 12;
constexpr double kTitleLine = 18;

}  // namespace

std::string for_each_width(const std::function<std::string(double)>& draw) {
  std::string drawings;
  for (const double width : kPlotWidths) drawings += draw(width);
  return drawings;
}

std::string number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return fmt::format("{}", rounded == 0 ? 0.0 : rounded);
}

std::string text(double x, double y, std::string_view content, Anchor anchor, std::string_view css_class) {
  const char* side = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", number(x),
                     number(y), side, css_class, escape_html(content));
}

std::string text_lines(double x, double y, const std::vector<std::string>& lines, Anchor anchor,
                       std::string_view css_class) {
  std::string body;
  for (size_t i = 0; i < lines.size(); ++i)
    body += text(x, y + kTextLine * static_cast<double>(i), lines[i], anchor, css_class);
  return body;
}

std::string line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  return fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", number(x1), number(y1),
                     number(x2), number(y2), css_class);
}

std::string line_around(double x, double top, double bottom, std::string_view css_class,
                        const std::vector<Box>& obstacles) {
  std::vector<Box> met;
  for (const Box& box : obstacles) {
    if (box.meets({x - 1, top, x + 1, bottom})) met.push_back(box);
  }
  std::sort(met.begin(), met.end(), [](const Box& a, const Box& b) { return a.top < b.top; });
  std::string body;
  double from = top;
  for (const Box& box : met) {
    if (box.top > from) body += line(x, from, x, box.top, css_class);
    from = std::max(from, box.bottom);
  }
  if (from < bottom) body += line(x, from, x, bottom, css_class);
  return body;
}

std::string rectangle(double x, double y, double width, double height, std::string_view css_class,
                      std::string_view tooltip) {
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"><title>{}</title></rect>\n", number(x),
      number(y), number(width), number(height), css_class, escape_html(tooltip));
}

std::string color_class(size_t series) {
  return fmt::format("c{}", series % static_cast<size_t>(kSeriesColors));
}

Part title(std::string_view text, double width) {
  Part part;
  if (text.empty()) return part;
  for (const std::string& line : wrapped(text, width, kTitleSize)) {
    part.body += svg::text(0, part.height + 14, line, Anchor::kStart, "title");
    part.height += kTitleLine;
  }
  part.height += 8;
  return part;
}

Part legend(const std::vector<std::string>& names, double width, double top) {
  Part legend;
  if (names.size() < 2) return legend;
  constexpr double kTextAt = kKeySize + 6;
  double x = 0;
  double y = top;
  double row_lines = 1;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<std::string> lines = wrapped(names[i], width - kTextAt);
    const double room = kTextAt + widest(lines);
    if (x > 0 && x + room > width) {
      x = 0;
      y += 3 + kTextLine * row_lines;
      row_lines = 1;
    }
    legend.body += rectangle(x, y + 1, kKeySize, kKeySize, "key " + color_class(i), names[i]);
    legend.body += text_lines(x + kTextAt, y + 11, lines, Anchor::kStart, "legend");
    row_lines = std::max(row_lines, static_cast<double>(lines.size()));
    x += room + 14;
  }
  legend.height = y + kTextLine * row_lines + 9 - top;
  return legend;
}

std::string element(double width, double height, std::string_view title, std::string_view description,
                    std::string_view body) {
  return fmt::format(
      "<svg class=\"plot w{0}\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" role=\"img\" aria-label=\"{2}\">\n"
      "<desc>{3}</desc>\n{4}</svg>\n",
      number(width), number(height), escape_html(title), escape_html(description), body);
}

std::string nothing(double width, std::string_view title, std::string_view description) {
  const Part heading = svg::title(title, width);
  return element(width, heading.height + 30, title, description,
                 heading.body + text(0, heading.height + 14, "no values", Anchor::kStart, "tick"));
}

}  // namespace shoehorn::svg
