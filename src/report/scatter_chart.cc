#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/html_page.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

constexpr double kDotRadius = 4;
constexpr double kNameHeight = 13;
constexpr double kMaxNameWidth = 180;

bool has_spread(const ScatterPoint& point, const PlotAxis& axis) {
  return has_place(point.low, axis) && has_place(point.high, axis);
}

// Where a name stands, so that no two of them cross.
struct NamePlace {
  double left, right, y;
};

bool is_free(const std::vector<NamePlace>& taken, const NamePlace& place) {
  return std::none_of(taken.begin(), taken.end(), [&place](const NamePlace& other) {
    return place.left < other.right && other.left < place.right && std::abs(place.y - other.y) < kNameHeight;
  });
}

// Right of the dot, or left of it where the plot ends; further up or down where another name stands.
NamePlace place_of(const svg::Frame& frame, double x, double y, double width,
                   const std::vector<NamePlace>& taken) {
  NamePlace best{};
  for (int64_t shift = 0; shift < 24; ++shift) {
    const double down = kNameHeight * static_cast<double>((shift + 1) / 2) * (shift % 2 == 0 ? -1 : 1);
    const double at = std::clamp(y + 4 + down, frame.top + kNameHeight, frame.bottom);
    const NamePlace right{x + 8, x + 8 + width, at};
    const NamePlace left{x - 8 - width, x - 8, at};
    best = right.right <= svg::kWidth ? right : left;
    if (is_free(taken, best)) break;
  }
  return best;
}

std::string draw_point(const svg::Frame& frame, const ScatterChart& chart, const ScatterPoint& point,
                       std::vector<NamePlace>& taken) {
  const double x = frame.x_at(point.x);
  const double y = frame.y_at(point.y);
  const std::string color = svg::color_class(point.group);
  std::string tooltip =
      fmt::format("{}, {} {}, {} {}", point.name, chart.x.title, format_value(point.x, chart.x.unit),
                  chart.y.title, format_value(point.y, chart.y.unit));
  std::string body;
  if (has_spread(point, chart.y)) {
    body += svg::line(x, frame.y_at(point.low), x, frame.y_at(point.high), "line " + color);
    tooltip += fmt::format(" ({} to {})", format_value(point.low, chart.y.unit),
                           format_value(point.high, chart.y.unit));
  }
  body += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"dot {}\"><title>{}</title></circle>\n",
                      svg::number(x), svg::number(y), kDotRadius, color, escape_html(tooltip));
  const std::string name = svg::shortened(point.name, kMaxNameWidth);
  const NamePlace place = place_of(frame, x, y, svg::text_width(name), taken);
  taken.push_back(place);
  // A name that stands apart is led to.
  if (std::abs(place.y - y - 4) >= kNameHeight)
    body = svg::line(x, y, place.left > x ? place.left : place.right, place.y - 4, "grid") + body;
  return body + svg::text(place.left, place.y, name, svg::Anchor::kStart, "value");
}

}  // namespace

std::string draw(const ScatterChart& chart) {
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
                     [&](const svg::Frame& frame) {
                       std::string body;
                       std::vector<NamePlace> taken;
                       for (const ScatterPoint* point : drawn)
                         body += draw_point(frame, chart, *point, taken);
                       return body;
                     });
}

}  // namespace shoehorn
