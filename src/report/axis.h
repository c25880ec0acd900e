// The ends and the ticks of an axis.
#pragma once

#include <string>
#include <vector>

#include "report/plot.h"

namespace shoehorn {

struct AxisTicks {
  double low = 0;  // low < high; on a logarithmic axis low > 0
  double high = 1;
  bool logarithmic = false;
  std::vector<double> at;  // increasing, within [low, high]
  std::vector<std::string> labels;

  // The position of `value` between low (0) and high (1). NaN if the axis cannot show the value.
  double position(double value) const;
};

// An axis for finite values from `low` to `high` with at most `most` ticks (2 or more), at multiples of 1, 2
// or 5 times a power of ten (bytes: of the unit that they are shown in; counts: integers). `widen` extends
// both ends to ticks. Without values the axis goes from 0 to 1.
AxisTicks make_ticks(double low, double high, const PlotAxis& axis, int64_t most, bool widen = true);

// The smallest and the largest of the values that the axis can show.
class AxisRange {
 public:
  explicit AxisRange(const PlotAxis& axis) : axis_(axis) {}
  void add(double value);
  bool is_empty() const { return is_empty_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  const PlotAxis& axis_;
  bool is_empty_ = true;
  double low_ = 0;
  double high_ = 0;
};

bool has_place(double value, const PlotAxis& axis);

}  // namespace shoehorn
