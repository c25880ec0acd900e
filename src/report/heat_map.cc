#include "report/heat_map.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/format.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

constexpr double kNameShare = 0.4;  // of the width, at most, for the names of rows
constexpr double kMostCell = 64;
constexpr double kTextHeight = 16;  // a cell's least height with a text

// The rectangle with its share of the full shade.
std::string shaded(double x, double y, double width, double height, double share,
                   const std::string& tooltip) {
  return fmt::format("<g fill-opacity=\"{:.3f}\">{}</g>", share,
                     svg::rectangle(x, y, width, height, "bar " + svg::color_class(0), tooltip));
}

// "3  name": columns have only the numbers, for which there is room. Where there is room for all names they stand there.
std::string numbered(const HeatMap& map, size_t index) {
  return fmt::format("{}  {}", index + 1, map.names[index]);
}

}  // namespace

std::string draw(const HeatMap& map) {
  return svg::for_each_width([&map](double width) { return draw(map, width); });
}

std::string draw(const HeatMap& map, double width) {
  const size_t count = map.names.size();
  CHECK(map.counts.size() == count * count, "{} counts of {} names", map.counts.size(), count);
  double name_room = 0;
  for (size_t i = 0; i < count; ++i) name_room = std::max(name_room, text_width(numbered(map, i)));
  name_room = std::min(name_room, kNameShare * width);
  const double left = name_room + 10;
  const double cell = std::min(kMostCell, (width - left) / static_cast<double>(std::max<size_t>(1, count)));
  const bool has_names = cell >= kTextHeight;
  const bool has_column_names = std::all_of(map.names.begin(), map.names.end(), [&](const std::string& name) {
    return text_width(name) + 4 <= cell;
  });
  const svg::Part title = svg::title(map.title, width);
  std::string body = title.body;
  const std::vector<std::string> axes =
      wrapped(fmt::format("{} down, {} across", map.row_title, map.column_title), width);
  body += svg::text_lines(0, title.height + 11, axes, svg::Anchor::kStart, "axistitle");
  double y = title.height + kTextLine * static_cast<double>(axes.size()) + kTextHeight + 4;
  for (size_t column = 0; has_names && column < count; ++column) {
    body += svg::text(left + cell * (static_cast<double>(column) + 0.5), y - 5,
                      has_column_names ? map.names[column] : std::to_string(column + 1), svg::Anchor::kMiddle,
                      "tick");
  }
  for (size_t row = 0; row < count; ++row) {
    const std::span<const int64_t> counts = std::span(map.counts).subspan(row * count, count);
    const auto whole = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    double height = cell;
    if (has_names) {
      const std::vector<std::string> name =
          wrapped(has_column_names ? map.names[row] : numbered(map, row), name_room);
      const double name_height = kTextLine * static_cast<double>(name.size());
      height = std::max(cell, name_height + 4);
      body +=
          svg::text_lines(left - 8, y + (height - name_height) / 2 + 12, name, svg::Anchor::kEnd, "category");
    }
    for (size_t column = 0; column < count; ++column) {
      const double x = left + cell * static_cast<double>(column);
      const double share = whole == 0 ? 0 : static_cast<double>(counts[column]) / whole;
      body +=
          shaded(x, y, cell, height, share,
                 fmt::format("{} {}, {} {}: {} ({:.1f} %)", map.row_title, map.names[row], map.column_title,
                             map.names[column], format_count(counts[column]), 100 * share));
      const std::string number = format_count(counts[column]);
      if (counts[column] > 0 && has_names && text_width(number) + 4 <= cell)
        body += svg::text(x + cell / 2, y + height / 2 + 4, number, svg::Anchor::kMiddle, "value");
    }
    y += height;
  }
  return svg::element(width, y + 8, map.title,
                      fmt::format("{} by {}, {} names", map.row_title, map.column_title, count), body);
}

}  // namespace shoehorn
