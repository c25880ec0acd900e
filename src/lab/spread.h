// The spread of a figure over runs with other seeds, and when one setting is worse than another by more than
// that.
#pragma once

#include <cstdint>
#include <vector>

namespace shoehorn {

struct Spread {
  int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation of the runs, by count - 1; 0 for one run
  double low = 0;
  double high = 0;
  double median = 0;
};

// Of at least one value. A NaN among them makes mean, deviation and median NaN.
Spread spread_of(std::vector<double> values);

// Whether there are the three runs in all that a pooled deviation needs.
bool have_spread(const Spread& a, const Spread& b);

// Standard error of the difference of two means that have_spread(), from one standard deviation pooled over
// both.
double pooled_standard_error(const Spread& a, const Spread& b);

// Of two that have_spread(): whether `rung` is worse where more is better: its mean is lower than the reference's by more than twice
// their pooled standard error, and below the lowest run of the reference.
bool loses(const Spread& rung, const Spread& reference);

}  // namespace shoehorn
