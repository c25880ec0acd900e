// The spread of a figure over runs with different seeds, and the test whether one setting is significantly
// worse than another.
#pragma once

#include <cstdint>
#include <vector>

namespace shoehorn {

struct Spread {
  int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation over the runs (count - 1); 0 for one run
  double low = 0;
  double high = 0;
  double median = 0;
};

// `values` is not empty. If one is NaN, so are mean, deviation and median.
Spread spread_of(std::vector<double> values);

// True if there are at least three runs in all, which a pooled deviation needs.
bool have_spread(const Spread& a, const Spread& b);

// Standard error of the difference of the two means, from one standard deviation pooled over both. Needs
// have_spread().
double pooled_standard_error(const Spread& a, const Spread& b);

// True if `rung` is significantly worse than `reference` (higher is better): its mean is lower by more than
// two pooled standard errors, and below every run of the reference. Needs have_spread().
bool loses(const Spread& rung, const Spread& reference);

}  // namespace shoehorn
