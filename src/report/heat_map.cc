#include "report/heat_map.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/format.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

constexpr double kMostNameWidth = 200;
constexpr double kLeastNameWidth = 40;
constexpr double kMostCell = 64;
constexpr double kLeastCell = 4;
constexpr double kTop = 24;         // the title
constexpr double kTextHeight = 16;  // a cell's least height with a text

// The rectangle with its share of the full shade.
std::string shaded(double x, double y, double size, double share, const std::string& tooltip) {
  return fmt::format("<g fill-opacity=\"{:.3f}\">{}</g>", share,
                     svg::rectangle(x, y, size, size, "bar " + svg::color_class(0), tooltip));
}

// A text that is read upwards from its place.
std::string on_end(double x, double y, const std::string& content) {
  return fmt::format("<g transform=\"rotate(-90 {} {})\">{}</g>", svg::number(x), svg::number(y),
                     svg::text(x, y, content, svg::Anchor::kStart, "category"));
}

}  // namespace

std::string draw(const HeatMap& map) {
  const size_t count = map.names.size();
  CHECK(map.counts.size() == count * count, "{} counts of {} names", map.counts.size(), count);
  double widest = 0;
  for (const std::string& name : map.names) widest = std::max(widest, svg::text_width(name));
  const double name_width = std::clamp(widest, kLeastNameWidth, kMostNameWidth);
  const double left = name_width + 16;
  const double cell = std::clamp((svg::kWidth - left) / static_cast<double>(std::max<size_t>(1, count)),
                                 kLeastCell, kMostCell);
  const bool shows_names = cell >= kTextHeight;
  const bool is_level = widest + 4 <= cell;  // names over the columns, which otherwise stand on end
  const double top =
      kTop + svg::kLineHeight + (is_level || !shows_names ? svg::kLineHeight : name_width + 12);
  const double side = cell * static_cast<double>(count);
  std::string body =
      svg::text(0, 14, map.title, svg::Anchor::kStart, "title") +
      svg::text(0, kTop + 10, fmt::format("{} down, {} across", map.row_title, map.column_title),
                svg::Anchor::kStart, "tick");
  for (size_t row = 0; row < count; ++row) {
    const std::span<const int64_t> counts = std::span(map.counts).subspan(row * count, count);
    const auto whole = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    const double y = top + cell * static_cast<double>(row);
    if (shows_names) {
      const std::string name = svg::shortened(map.names[row], name_width);
      const double x = left + cell * (static_cast<double>(row) + 0.5);
      body += svg::text(left - 8, y + cell / 2 + 4, name, svg::Anchor::kEnd, "category");
      body += is_level ? svg::text(x, top - 6, name, svg::Anchor::kMiddle, "category")
                       : on_end(x + 4, top - 8, name);
    }
    for (size_t column = 0; column < count; ++column) {
      const double x = left + cell * static_cast<double>(column);
      const double share = whole == 0 ? 0 : static_cast<double>(counts[column]) / whole;
      body +=
          shaded(x, y, cell, share,
                 fmt::format("{} {}, {} {}: {} ({:.1f} %)", map.row_title, map.names[row], map.column_title,
                             map.names[column], format_count(counts[column]), 100 * share));
      const std::string number = format_count(counts[column]);
      if (counts[column] > 0 && shows_names && svg::text_width(number) + 4 <= cell)
        body += svg::text(x + cell / 2, y + cell / 2 + 4, number, svg::Anchor::kMiddle, "value");
    }
  }
  for (size_t i = 0; shows_names && i <= count; ++i) {
    const double at = cell * static_cast<double>(i);
    body += svg::line(left, top + at, left + side, top + at, "grid");
    body += svg::line(left + at, top, left + at, top + side, "grid");
  }
  return svg::element(top + side + 8, map.title,
                      fmt::format("{} by {}, {} names", map.row_title, map.column_title, count), body);
}

}  // namespace shoehorn
