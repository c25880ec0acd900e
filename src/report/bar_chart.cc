#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/axis.h"
#include "report/mark_labels.h"
#include "report/svg.h"

namespace shoehorn {

namespace {

constexpr double kBarHeight = 15;
constexpr double kBarGap = 2;
constexpr double kCategoryGap = 12;
constexpr double kLeastWidthOfTwoColumns = 480;  // below it names stand above their bars
constexpr double kLabelShare = 0.34;             // of the width, at most, for names beside the bars
constexpr double kTickRoom = 16;                 // least distance of two labels of the axis

double amount(double value, const PlotAxis& axis) {
  return has_place(value, axis) ? std::max(0.0, value) : 0;
}

double sum_of(const BarChart& chart, size_t category) {
  double sum = 0;
  for (const BarSeries& series : chart.series) sum += amount(series.values[category], chart.axis);
  return sum;
}

std::string tooltip(const BarChart& chart, size_t category, size_t series) {
  const BarSeries& of = chart.series[series];
  return fmt::format("{}\n{}{}{}", chart.categories[category], of.name, of.name.empty() ? "" : ": ",
                     format_value(of.values[category], chart.axis.unit));
}

// A category: its name and its bars.
struct Row {
  std::vector<std::string> name;
  double name_y = 0;  // first baseline
  double bars_y = 0;
};

class BarDrawing {
 public:
  BarDrawing(const BarChart& chart, double width) : chart_(chart), width_(width) {}

  std::string draw() {
    measure();
    const std::string description = fmt::format("Bars of {}", fmt::join(chart_.categories, ", "));
    if (range_.is_empty()) return svg::nothing(width_, chart_.title, description);
    place();
    std::string bars;
    for (size_t c = 0; c < rows_.size(); ++c) bars += is_stacked() ? stacked_row(c) : grouped_rows(c);
    return svg::element(width_, height_, chart_.title, description, heading_ + lines() + bars + names());
  }

 private:
  bool is_stacked() const { return chart_.layout == BarLayout::kStacked; }
  bool has_names_above() const { return width_ < kLeastWidthOfTwoColumns; }

  double x_at(double value) const {
    return left_ + (right_ - left_) * std::clamp(ticks_.position(value), 0.0, 1.0);
  }

  void measure() {
    for (const BarSeries& series : chart_.series) {
      CHECK(series.values.size() == chart_.categories.size(), "series {} has {} values for {} categories",
            series.name, series.values.size(), chart_.categories.size());
      for (size_t c = 0; c < series.values.size(); ++c) {
        const double value = is_stacked() ? sum_of(chart_, c) : series.values[c];
        range_.add(value);
        value_width_ = std::max(value_width_, text_width(format_value(value, chart_.axis.unit)));
      }
    }
    for (const PlotMark& mark : chart_.marks) range_.add(mark.x);
  }

  // As many ticks as there is room for.
  void fit_ticks() {
    PlotAxis axis = chart_.axis;
    axis.from_zero = true;
    for (int64_t most = 6; most >= 2; --most) {
      ticks_ = make_ticks(range_.low(), range_.high(), axis, most);
      if (static_cast<double>(ticks_.labels.size()) * (widest(ticks_.labels) + kTickRoom) <= right_ - left_)
        return;
    }
  }

  void place() {
    std::vector<std::string> series;
    for (const BarSeries& bars : chart_.series) series.push_back(bars.name);
    const svg::Part title = svg::title(chart_.title, width_);
    const svg::Part keys = svg::legend(series, width_, title.height);
    heading_ = title.body + keys.body;
    double name_room = width_;
    left_ = 1;
    if (!has_names_above()) {
      name_room = std::min(widest(chart_.categories), kLabelShare * width_);
      left_ = name_room + 10;
    }
    right_ = width_ - value_width_ - 10;
    fit_ticks();
    std::vector<MarkAt> marks;
    for (const PlotMark& mark : chart_.marks) {
      if (has_place(mark.x, chart_.axis)) marks.push_back({x_at(mark.x), mark.label});
    }
    marks_ = place_marks(std::move(marks), width_);
    top_ = title.height + keys.height + marks_.height();
    place_rows(name_room);
    height_ = bottom_ + 24;
    if (!chart_.axis.title.empty()) height_ += kTextLine + 3;
  }

  void place_rows(double name_room) {
    const double bars = is_stacked() ? 1 : static_cast<double>(chart_.series.size());
    const double bars_height = bars * kBarHeight + (bars - 1) * kBarGap;
    double y = top_;
    for (const std::string& category : chart_.categories) {
      Row row{.name = wrapped(category, name_room)};
      const double name_height = kTextLine * static_cast<double>(row.name.size());
      if (has_names_above()) {
        row.name_y = y + kCategoryGap / 2 + 11;
        row.bars_y = y + kCategoryGap / 2 + name_height + 2;
        y = row.bars_y + bars_height + kCategoryGap / 2;
      } else {
        const double height = std::max(bars_height, name_height);
        row.name_y = y + kCategoryGap / 2 + (height - name_height) / 2 + 12;
        row.bars_y = y + kCategoryGap / 2 + (height - bars_height) / 2;
        y += height + kCategoryGap;
      }
      if (has_names_above()) avoid(box_of(row.name, 0, row.name_y));
      rows_.push_back(std::move(row));
    }
    bottom_ = y;
  }

  void avoid(Box box) { obstacles_.push_back({box.left - 3, box.top - 1, box.right + 3, box.bottom + 1}); }

  // A value behind the end of its bar.
  std::string value_text(double end, double y, const std::string& value) {
    avoid(box_of({value}, end + 6, y + 12));
    return svg::text(end + 6, y + 12, value, svg::Anchor::kStart, "value");
  }

  std::string stacked_row(size_t category) {
    const double y = rows_[category].bars_y;
    std::string body;
    double sum = 0;
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const double value = amount(chart_.series[s].values[category], chart_.axis);
      if (value == 0) continue;
      const double from = sum == 0 ? left_ : x_at(sum);
      sum += value;
      body += svg::rectangle(from, y, x_at(sum) - from, kBarHeight, "bar " + svg::color_class(s),
                             tooltip(chart_, category, s));
    }
    const double end = sum == 0 ? left_ : x_at(sum);
    return body + value_text(end, y, format_value(sum, chart_.axis.unit));
  }

  std::string grouped_rows(size_t category) {
    double y = rows_[category].bars_y;
    std::string body;
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const double value = chart_.series[s].values[category];
      const bool is_drawn = has_place(value, chart_.axis);
      const double end = is_drawn ? x_at(value) : left_;
      if (is_drawn) {
        body += svg::rectangle(left_, y, std::max(1.0, end - left_), kBarHeight, "bar " + svg::color_class(s),
                               tooltip(chart_, category, s));
      }
      body += value_text(end, y, is_drawn ? format_value(value, chart_.axis.unit) : "–");
      y += kBarHeight + kBarGap;
    }
    return body;
  }

  // What lies behind the bars, around the texts.
  std::string lines() const {
    std::string body;
    for (size_t i = 0; i < ticks_.at.size(); ++i) {
      const double x = x_at(ticks_.at[i]);
      const double half = text_width(ticks_.labels[i]) / 2;
      body += svg::line_around(x, top_, bottom_, "grid", obstacles_);
      body += svg::text(std::clamp(x, half, std::max(half, width_ - half)), bottom_ + 16, ticks_.labels[i],
                        svg::Anchor::kMiddle, "tick");
    }
    for (const MarkLabel& mark : marks_.labels) {
      const double text_top = marks_.box(mark, top_).top;
      body += svg::line_around(mark.x, text_top, bottom_, "mark", obstacles_);
      body += svg::text_lines(mark.left, text_top + 11, mark.lines, svg::Anchor::kStart, "marktext");
    }
    return body;
  }

  std::string names() const {
    std::string body = svg::line_around(left_, top_, bottom_, "axis", obstacles_);
    for (const Row& row : rows_) {
      body += has_names_above()
                  ? svg::text_lines(0, row.name_y, row.name, svg::Anchor::kStart, "category")
                  : svg::text_lines(left_ - 8, row.name_y, row.name, svg::Anchor::kEnd, "category");
    }
    if (!chart_.axis.title.empty()) {
      body +=
          svg::text((left_ + right_) / 2, bottom_ + 34, chart_.axis.title, svg::Anchor::kMiddle, "axistitle");
    }
    return body;
  }

  const BarChart& chart_;
  const double width_;
  AxisRange range_{chart_.axis};
  double value_width_ = text_width("–");
  std::string heading_;
  AxisTicks ticks_;
  MarkLabels marks_;
  std::vector<Row> rows_;
  std::vector<Box> obstacles_;                          // of vertical lines
  double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;  // of the bars
  double height_ = 0;
};

}  // namespace

std::string draw(const BarChart& chart) {
  return svg::for_each_width([&chart](double width) { return draw(chart, width); });
}

std::string draw(const BarChart& chart, double width) {
  CHECK(chart.layout == BarLayout::kGrouped || !chart.axis.logarithmic,
        "parts of a sum have no logarithmic axis");
  return BarDrawing(chart, width).draw();
}

}  // namespace shoehorn
