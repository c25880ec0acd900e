// Where an axis begins and ends, and its ticks.
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

  // Where `value` lies between low (0) and high (1). NaN where it has no place on the axis.
  double position(double value) const;
};

// An axis over the finite values from `low` to `high` with at most `most` ticks (at least 2), at multiples of
// 1, 2 or 5 times a power of ten (of bytes: of the unit they are said in; of counts: whole). `widen` moves
// the ends out to ticks. No values are an axis from 0 to 1.
AxisTicks make_ticks(double low, double high, const PlotAxis& axis, int64_t most, bool widen = true);

// The least and the largest of the values that have a place on the axis.
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
