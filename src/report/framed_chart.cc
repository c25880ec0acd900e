#include "report/framed_chart.h"

#include <algorithm>
#include <cmath>

#include "report/mark_labels.h"

namespace shoehorn::svg {

namespace {

constexpr double kPlotHeight = 220;
constexpr double kRightMargin = 16;
constexpr double kTickRoom = 24;  // least distance of two labels of the x axis
constexpr int64_t kMostXTicks = 10;

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
    const double centre = std::clamp(x, half + 2, std::max(half + 2, frame.width - half - 2));
    body += text(centre, frame.bottom + 20, frame.x.labels[i], Anchor::kMiddle, "tick");
  }
  return body + line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
}

// As many ticks as there is room for beside each other; the labels' width depends on their number.
AxisTicks fit_x_ticks(const AxisRange& range, const PlotAxis& axis, double width) {
  for (int64_t most = kMostXTicks; most > 2; --most) {
    AxisTicks ticks = make_ticks(range.low(), range.high(), axis, most, false);
    const auto count = static_cast<double>(ticks.labels.size());
    if (count * (widest(ticks.labels) + kTickRoom) <= width) return ticks;
  }
  return make_ticks(range.low(), range.high(), axis, 2, false);
}

MarkLabels labels_of(const FramedChart& chart, const Frame& frame) {
  std::vector<MarkAt> marks;
  for (const PlotMark& mark : chart.marks) {
    const double x = frame.x_at(mark.x);
    if (std::isfinite(x)) marks.push_back({x, mark.label});
  }
  return place_marks(std::move(marks), frame.width);
}

std::string draw_marks(const MarkLabels& marks, const Frame& frame) {
  std::string body;
  for (const MarkLabel& label : marks.labels) {
    const double top = marks.box(label, frame.top).top;
    body += line(label.x, top, label.x, frame.bottom, "mark");
    body += text_lines(label.left, top + 11, label.lines, Anchor::kStart, "marktext");
  }
  return body;
}

}  // namespace

std::string framed(const FramedChart& chart, double width,
                   const std::function<FramedBody(const Frame&)>& body) {
  if (chart.x_range.is_empty() || chart.y_range.is_empty())
    return nothing(width, chart.title, chart.description);
  const Part heading = title(chart.title, width);
  const Part keys = legend(chart.names, width, heading.height);
  std::string drawn = heading.body + keys.body;
  double y = heading.height + keys.height;
  if (!chart.y_axis.title.empty()) {
    drawn += text_lines(0, y + 11, wrapped(chart.y_axis.title, width), Anchor::kStart, "axistitle");
    y += kTextLine * static_cast<double>(wrapped(chart.y_axis.title, width).size());
  }
  Frame frame{};
  frame.width = width;
  frame.right = width - kRightMargin;
  frame.y = make_ticks(chart.y_range.low(), chart.y_range.high(), chart.y_axis, 7);
  frame.left = std::max(24.0, widest(frame.y.labels) + 12);
  frame.x = fit_x_ticks(chart.x_range, chart.x_axis, frame.right - frame.left);
  const MarkLabels marks = labels_of(chart, frame);
  frame.top = y + marks.height();
  frame.bottom = frame.top + kPlotHeight;
  const FramedBody inside = body(frame);
  drawn += grid_and_axes(frame) + inside.below + draw_marks(marks, frame) + inside.above;
  y = frame.bottom + 28;
  if (!chart.x_axis.title.empty()) {
    const std::vector<std::string> lines = wrapped(chart.x_axis.title, width);
    const double half = widest(lines) / 2;
    const double centre = std::clamp((frame.left + frame.right) / 2, half, std::max(half, width - half));
    drawn += text_lines(centre, y + 11, lines, Anchor::kMiddle, "axistitle");
    y += 4 + kTextLine * static_cast<double>(lines.size());
  }
  if (inside.under_plot) {
    const Part under = inside.under_plot(y + 8);
    drawn += under.body;
    y += 8 + under.height;
  }
  return element(width, y, chart.title, chart.description, drawn);
}

std::string band(const Frame& frame, double left, double right, std::string_view tooltip) {
  left = std::max(left, frame.left);
  right = std::min(right, frame.right);
  return rectangle(left, frame.top, std::max(1.0, right - left), frame.bottom - frame.top, "band", tooltip);
}

}  // namespace shoehorn::svg
