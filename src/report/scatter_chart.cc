#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/rounding.h"
#include "report/framed_chart.h"
#include "report/html_page.h"

namespace shoehorn {

namespace {

constexpr double kDotRadius = 4;
constexpr double kNameHeight = 15;
constexpr double kNameAscent = 12;
constexpr double kNameGap = 8;     // between a dot and its name
constexpr int64_t kMaxShift = 24;  // rows that a name may stand apart from its dot

bool has_spread(const ScatterPoint& point, const PlotAxis& axis) {
  return has_place(point.low, axis) && has_place(point.high, axis);
}

struct Dot {
  const ScatterPoint* point;
  double x, y;
};

struct Name {
  std::string text;
  Box box;
};

Box name_box(double left, double baseline, double width) {
  return {left, baseline - kNameAscent, left + width, baseline - kNameAscent + kNameHeight};
}

// Right of its dot or left of it, at its height or further up or down: where nothing else stands. False if there is no
// such place within the frame.
bool find_place(const svg::Frame& frame, const Dot& dot, const std::vector<Box>& taken, Name& name) {
  const double width = text_width(name.text);
  for (int64_t shift = 0; shift < kMaxShift; ++shift) {
    const double down = kNameHeight * static_cast<double>((shift + 1) / 2) * (shift % 2 == 0 ? -1 : 1);
    const double baseline = dot.y + 4 + down;
    if (baseline < frame.top + kNameAscent || baseline > frame.bottom - 3) continue;
    for (const double left : {dot.x + kNameGap, dot.x - kNameGap - width}) {
      if (left < frame.left || left + width > frame.width) continue;
      name.box = name_box(left, baseline, width);
      if (std::none_of(taken.begin(), taken.end(), [&](const Box& box) { return box.meets(name.box); }))
        return true;
    }
  }
  return false;
}

// A place for each name; empty if they do not all fit.
std::vector<Name> place_names(const svg::Frame& frame, const std::vector<Dot>& dots,
                              const std::vector<std::string>& texts) {
  std::vector<Box> taken;
  for (const Dot& dot : dots)
    taken.push_back({dot.x - kDotRadius, dot.y - kDotRadius, dot.x + kDotRadius, dot.y + kDotRadius});
  std::vector<Name> names;
  for (size_t i = 0; i < dots.size(); ++i) {
    Name name{texts[i], {}};
    if (!find_place(frame, dots[i], taken, name)) return {};
    taken.push_back(name.box);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<Dot>& dots) {
  std::vector<std::string> names;
  for (const Dot& dot : dots) names.push_back(dot.point->name);
  return names;
}

std::vector<std::string> numbers_of(const std::vector<Dot>& dots) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < dots.size(); ++i) numbers.push_back(std::to_string(i + 1));
  return numbers;
}

// "1  fp32", "2  bf16", … in as many columns as there is room for.
svg::Part list_of(const std::vector<Dot>& dots, double width, double top) {
  constexpr double kNumberRoom = 28;
  double column = 0;
  for (const Dot& dot : dots) column = std::max(column, kNumberRoom + text_width(dot.point->name) + 20);
  const auto columns = static_cast<size_t>(std::max(1.0, std::floor(width / column)));
  column = width / static_cast<double>(columns);
  const auto rows = static_cast<size_t>(ceil_divide(std::ssize(dots), static_cast<int64_t>(columns)));
  svg::Part list;
  for (size_t first = 0; first < dots.size(); first += rows) {
    const double x = column * static_cast<double>(first / rows);
    double y = top;
    for (size_t i = first; i < std::min(first + rows, dots.size()); ++i) {
      const std::vector<std::string> lines = wrapped(dots[i].point->name, column - kNumberRoom);
      list.body += svg::text(x + kNumberRoom - 8, y + 11, std::to_string(i + 1), svg::Anchor::kEnd, "value");
      list.body += svg::text_lines(x + kNumberRoom, y + 11, lines, svg::Anchor::kStart, "legend");
      y += 2 + kTextLine * static_cast<double>(lines.size());
    }
    list.height = std::max(list.height, y - top + 4);
  }
  return list;
}

std::string draw_dot(const svg::Frame& frame, const ScatterChart& chart, const Dot& dot) {
  const ScatterPoint& point = *dot.point;
  const std::string color = svg::color_class(point.group);
  std::string tooltip =
      fmt::format("{}\n{}: {}\n{}: {}", point.name, chart.x.title, format_value(point.x, chart.x.unit),
                  chart.y.title, format_value(point.y, chart.y.unit));
  std::string body;
  if (has_spread(point, chart.y)) {
    body += svg::line(dot.x, frame.y_at(point.low), dot.x, frame.y_at(point.high), "line " + color);
    tooltip += fmt::format(" ({} to {})", format_value(point.low, chart.y.unit),
                           format_value(point.high, chart.y.unit));
  }
  return body +
         fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"dot {}\"><title>{}</title></circle>\n",
                     svg::number(dot.x), svg::number(dot.y), kDotRadius, color, escape_html(tooltip));
}

std::string draw_name(const Dot& dot, const Name& name) {
  const double baseline = name.box.top + kNameAscent;
  std::string body;
  if (std::abs(baseline - dot.y - 4) >= kNameHeight) {  // it stands apart and is led to
    const double end = name.box.left > dot.x ? name.box.left - 2 : name.box.right + 2;
    body += svg::line(dot.x, dot.y, end, baseline - 4, "grid");
  }
  return body + svg::text(name.box.left, baseline, name.text, svg::Anchor::kStart, "value");
}

svg::FramedBody draw_points(const svg::Frame& frame, const ScatterChart& chart,
                            const std::vector<const ScatterPoint*>& points) {
  std::vector<Dot> dots;
  for (const ScatterPoint* point : points)
    dots.push_back({point, frame.x_at(point->x), frame.y_at(point->y)});
  svg::FramedBody body;
  std::vector<Name> names = place_names(frame, dots, names_of(dots));
  if (names.empty()) {
    names = place_names(frame, dots, numbers_of(dots));
    body.under_plot = [dots, width = frame.width](double top) { return list_of(dots, width, top); };
  }
  for (size_t i = 0; i < names.size(); ++i) body.below += draw_name(dots[i], names[i]);
  for (const Dot& dot : dots) body.above += draw_dot(frame, chart, dot);
  return body;
}

}  // namespace

std::string draw(const ScatterChart& chart) {
  return svg::for_each_width([&chart](double width) { return draw(chart, width); });
}

std::string draw(const ScatterChart& chart, double width) {
  AxisRange x_range(chart.x);
  AxisRange y_range(chart.y);
  std::vector<const ScatterPoint*> drawn;
  for (const ScatterPoint& point : chart.points) {
    CHECK(point.group < std::max<size_t>(1, chart.groups.size()), "group {} of {}", point.group,
          chart.groups.size());
    if (!has_place(point.x, chart.x) || !has_place(point.y, chart.y)) continue;
    drawn.push_back(&point);
    x_range.add(point.x);
    y_range.add(point.y);
    if (!has_spread(point, chart.y)) continue;
    y_range.add(point.low);
    y_range.add(point.high);
  }
  static const std::vector<PlotMark> kNoMarks;
  const std::string description = fmt::format("{} points", drawn.size());
  return svg::framed({chart.title, description, chart.groups, chart.x, chart.y, x_range, y_range, kNoMarks},
                     width, [&](const svg::Frame& frame) { return draw_points(frame, chart, drawn); });
}

}  // namespace shoehorn
