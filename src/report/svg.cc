#include "report/svg.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "report/html_page.h"

namespace shoehorn::svg {

namespace {

constexpr double kCharacterWidth = 6.8;  // of figures at 12 px; letters are narrower on average
constexpr double kPlotHeight = 220;
constexpr double kRightMargin = 16;
constexpr double kKeySize = 12;
constexpr double kTickRoom = 24;  // least distance of two labels of the x axis

double widest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels) width = std::max(width, text_width(label));
  return width;
}

std::string grid_and_axes(const Frame& frame) {
  std::string body;
  for (size_t i = 0; i < frame.y.at.size(); ++i) {
    const double y = frame.y_at(frame.y.at[i]);
    body += line(frame.left, y, frame.right, y, "grid");
    body += text(frame.left - 8, y + 4, frame.y.labels[i], Anchor::kEnd, "tick");
  }
  for (size_t i = 0; i < frame.x.at.size(); ++i) {
    const double x = frame.x_at(frame.x.at[i]);
    body += line(x, frame.bottom, x, frame.bottom + 4, "axis");
    // Labels at the ends stay within the element.
    const double half = text_width(frame.x.labels[i]) / 2;
    const double centre = std::clamp(x, half + 2, kWidth - half - 2);
    body += text(centre, frame.bottom + 18, frame.x.labels[i], Anchor::kMiddle, "tick");
  }
  body += line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  return body;
}

std::string marks_at(const Frame& frame, const std::vector<PlotMark>& marks) {
  std::string body;
  for (const PlotMark& mark : marks) {
    const double x = frame.x_at(mark.x);
    if (!std::isfinite(x)) continue;
    const bool room_right = x + 6 + text_width(mark.label) < frame.right;
    body += line(x, frame.top, x, frame.bottom, "mark");
    body += text(room_right ? x + 6 : x - 6, frame.top + 12, mark.label,
                 room_right ? Anchor::kStart : Anchor::kEnd, "marktext");
  }
  return body;
}

// As many ticks as there is room for beside each other; the labels' width depends on their number.
AxisTicks fit_x_ticks(const AxisRange& range, const PlotAxis& axis, double width) {
  for (int64_t most = 10; most > 2; --most) {
    AxisTicks ticks = make_ticks(range.low(), range.high(), axis, most, false);
    const auto count = static_cast<double>(ticks.labels.size());
    if (count * (widest(ticks.labels) + kTickRoom) <= width) return ticks;
  }
  return make_ticks(range.low(), range.high(), axis, 2, false);
}

}  // namespace

double text_width(std::string_view text) {
  return kCharacterWidth * static_cast<double>(count_code_points(text));
}

std::string shortened(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  const auto most = static_cast<int64_t>(std::max(1.0, width / kCharacterWidth)) - 1;
  size_t end = 0;
  for (int64_t characters = 0; end < text.size(); ++end) {
    if (!is_utf8_continuation(text[end]) && characters++ == most) break;
  }
  return std::string(text.substr(0, end)) + "…";
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

std::string line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  return fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", number(x1), number(y1),
                     number(x2), number(y2), css_class);
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

Legend legend(const std::vector<std::string>& names, double left, double top) {
  Legend legend;
  if (names.size() < 2) return legend;
  double x = left;
  double y = top;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = shortened(names[i], kWidth - left - kKeySize - 24);
    const double width = kKeySize + 6 + text_width(name) + 14;
    if (x > left && x + width > kWidth) {
      x = left;
      y += kLineHeight;
    }
    legend.body += rectangle(x, y + 1, kKeySize, kKeySize, "key " + color_class(i), names[i]);
    legend.body += text(x + kKeySize + 6, y + 11, name, Anchor::kStart, "legend");
    x += width;
  }
  legend.height = y + kLineHeight + 6 - top;
  return legend;
}

std::string element(double height, std::string_view title, std::string_view description,
                    std::string_view body) {
  return fmt::format(
      "<svg class=\"plot\" viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"{}\">\n"
      "<desc>{}</desc>\n{}</svg>\n",
      number(kWidth), number(height), number(kWidth), escape_html(title), escape_html(description), body);
}

std::string framed(const FramedChart& chart, const std::function<std::string(const Frame&)>& body) {
  std::string drawn = text(0, 14, chart.title, Anchor::kStart, "title");
  if (chart.x_range.is_empty() || chart.y_range.is_empty()) {
    drawn += text(0, 40, "no values", Anchor::kStart, "tick");
    return element(56, chart.title, chart.description, drawn);
  }
  const Legend keys = legend(chart.names, 0, 26);
  drawn += keys.body;
  Frame frame{};
  frame.top = 26 + keys.height + (chart.y_axis.title.empty() ? 4 : kLineHeight + 6);
  frame.bottom = frame.top + kPlotHeight;
  frame.right = kWidth - kRightMargin;
  frame.y = make_ticks(chart.y_range.low(), chart.y_range.high(), chart.y_axis, 7);
  frame.left = std::max(24.0, widest(frame.y.labels) + 12);
  frame.x = fit_x_ticks(chart.x_range, chart.x_axis, frame.right - frame.left);
  if (!chart.y_axis.title.empty()) {
    drawn += text(0, frame.top - 13, chart.y_axis.title, Anchor::kStart, "axistitle");
  }
  const std::string grid = grid_and_axes(frame);
  drawn += grid + body(frame) + marks_at(frame, chart.marks);
  double height = frame.bottom + 26;
  if (!chart.x_axis.title.empty()) {
    drawn += text((frame.left + frame.right) / 2, frame.bottom + 36, chart.x_axis.title, Anchor::kMiddle,
                  "axistitle");
    height += kLineHeight;
  }
  return element(height, chart.title, chart.description, drawn);
}

}  // namespace shoehorn::svg
