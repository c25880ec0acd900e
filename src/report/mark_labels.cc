#include "report/mark_labels.h"

#include <algorithm>

namespace shoehorn {

namespace {

constexpr double kGap = 5;         // between a line and its text
constexpr double kTickHeight = 8;  // of the highest label of the plot's axis, above the plot

// The room right or left of a line: up to the next line, unless that is near and has to be passed below or above.
double room_beside(const std::vector<MarkAt>& marks, const MarkAt& mark, bool is_right, double width) {
  double room = is_right ? width - mark.x : mark.x;
  for (const MarkAt& other : marks) {
    const double distance = is_right ? other.x - mark.x : mark.x - other.x;
    if (distance >= width / 4) room = std::min(room, distance - kGap);
  }
  return std::max(1.0, room - kGap);
}

MarkLabel candidate(const MarkAt& mark, bool is_right, int64_t row, double room) {
  MarkLabel label{.x = mark.x, .lines = wrapped(mark.label, room), .row = row};
  label.left = is_right ? mark.x + kGap : std::max(0.0, mark.x - kGap - widest(label.lines));
  return label;
}

// True if the line of `upper` runs through the text of `lower`.
bool crosses(const MarkLabel& upper, const MarkLabel& lower) {
  return upper.row > lower.row && upper.x > lower.left - kGap &&
         upper.x < lower.left + widest(lower.lines) + kGap;
}

bool are_apart(const MarkLabel& a, const MarkLabel& b) {
  if (crosses(a, b) || crosses(b, a)) return false;
  if (a.row != b.row) return true;
  // The line of either begins beside the text of the other.
  const auto [a_left, a_right] = std::minmax(a.x, a.left);
  const auto [b_left, b_right] = std::minmax(b.x, b.left);
  return std::max(a_right, a.left + widest(a.lines)) + kGap < b_left ||
         std::max(b_right, b.left + widest(b.lines)) + kGap < a_left;
}

}  // namespace

double MarkLabels::height() const {
  return kTickHeight + row_height * static_cast<double>(rows);
}

Box MarkLabels::box(const MarkLabel& label, double plot_top) const {
  const double bottom = plot_top - kTickHeight - row_height * static_cast<double>(label.row);
  const double lines = kTextLine * static_cast<double>(label.lines.size());
  return {label.left, bottom - lines, label.left + widest(label.lines), bottom};
}

MarkLabels place_marks(std::vector<MarkAt> marks, double width) {
  std::sort(marks.begin(), marks.end(), [](const MarkAt& a, const MarkAt& b) { return a.x > b.x; });
  std::vector<MarkLabel> labels;
  for (const MarkAt& mark : marks) {
    const auto count = static_cast<int64_t>(labels.size());
    // Beside the others, else above them, else below them.
    std::vector<MarkLabel> candidates;
    const double right_room = room_beside(marks, mark, true, width);
    const double left_room = room_beside(marks, mark, false, width);
    const bool is_right = text_width(mark.label) <= right_room || right_room >= left_room;
    for (int64_t i = 0; i <= 2 * count; ++i) {
      const int64_t row = i <= count ? i : count - i;
      for (const bool side : {is_right, !is_right}) {
        const double room = side ? right_room : left_room;
        if (side == is_right || room > width / 5) candidates.push_back(candidate(mark, side, row, room));
      }
    }
    const auto free = std::find_if(candidates.begin(), candidates.end(), [&](const MarkLabel& label) {
      return std::all_of(labels.begin(), labels.end(),
                         [&](const MarkLabel& other) { return are_apart(label, other); });
    });
    labels.push_back(free == candidates.end() ? candidates.back() : *free);
  }
  MarkLabels placed;
  int64_t lowest = 0;
  for (const MarkLabel& label : labels) lowest = std::min(lowest, label.row);
  for (MarkLabel& label : labels) {
    label.row -= lowest;
    placed.rows = std::max(placed.rows, label.row + 1);
    placed.row_height = std::max(placed.row_height, kTextLine * static_cast<double>(label.lines.size()) + 3);
  }
  placed.labels = std::move(labels);
  return placed;
}

}  // namespace shoehorn
