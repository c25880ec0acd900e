// The labels of vertical lines across a plot: they stand above it, none on another or on another's line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/text_layout.h"

namespace shoehorn {

struct MarkAt {
  double x = 0;  // pixels
  std::string label;
};

struct MarkLabel {
  double x = 0;     // of its line
  double left = 0;  // of its text
  std::vector<std::string> lines;
  int64_t row = 0;  // 0: nearest to the plot
};

struct MarkLabels {
  std::vector<MarkLabel> labels;
  int64_t rows = 0;
  double row_height = 0;

  // The room that they take above the plot, with that of the axis's highest label.
  double height() const;
  // Where the text of a label stands above a plot whose upper edge is at `plot_top`; its line begins at the box's top.
  Box box(const MarkLabel& label, double plot_top) const;
};

// Labels between 0 and `width`, each right or left of its line, in as few rows as they need.
MarkLabels place_marks(std::vector<MarkAt> marks, double width);

}  // namespace shoehorn
