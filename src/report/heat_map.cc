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

}  // namespace

std::string draw(const HeatMap& map) {
  const size_t count = map.names.size();
  CHECK(map.counts.size() == count * count, "{} counts of {} names", map.counts.size(), count);
  double widest = kLeastNameWidth;
  for (const std::string& name : map.names) widest = std::max(widest, svg::text_width(name));
  const double left = std::min(kMostNameWidth, widest) + 16;
  const double cell = std::clamp((svg::kWidth - left) / static_cast<double>(std::max<size_t>(1, count)),
                                 kLeastCell, kMostCell);
  const double top = kTop + 2 * svg::kLineHeight;
  const bool names_rows = cell >= kTextHeight;
  std::string body = svg::text(left, kTop + svg::kLineHeight - 4,
                               fmt::format("{} across, {} down", map.column_title, map.row_title),
                               svg::Anchor::kStart, "tick");
  for (size_t row = 0; row < count; ++row) {
    const std::span<const int64_t> counts = std::span(map.counts).subspan(row * count, count);
    const auto whole = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    const double y = top + cell * static_cast<double>(row);
    if (names_rows) {
      body += svg::text(left - 8, y + cell / 2 + 4, svg::shortened(map.names[row], left - 16),
                        svg::Anchor::kEnd, "category");
      body += svg::text(left + cell * (static_cast<double>(row) + 0.5), top - 6,
                        svg::shortened(map.names[row], cell - 4), svg::Anchor::kMiddle, "tick");
    }
    for (size_t column = 0; column < count; ++column) {
      const double x = left + cell * static_cast<double>(column);
      const double share = whole == 0 ? 0 : static_cast<double>(counts[column]) / whole;
      body +=
          shaded(x, y, cell, share,
                 fmt::format("{} {}, {} {}: {} ({:.1f} %)", map.row_title, map.names[row], map.column_title,
                             map.names[column], format_count(counts[column]), 100 * share));
      const std::string number = format_count(counts[column]);
      if (counts[column] > 0 && names_rows && svg::text_width(number) + 4 <= cell)
        body += svg::text(x + cell / 2, y + cell / 2 + 4, number, svg::Anchor::kMiddle, "value");
    }
  }
  return svg::element(top + cell * static_cast<double>(count) + 8, map.title,
                      fmt::format("{} by {}, {} names", map.row_title, map.column_title, count), body);
}

}  // namespace shoehorn
