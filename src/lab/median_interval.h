// How well a median of timed steps is known, and whether two of them can be told apart.
//
// The interval of a median is between two of the sorted samples: for independent samples of any distribution, the true
// median lies outside of the k-th smallest and the k-th largest of n with the probability 2 · P(Binomial(n, ½) < k). The
// interval here has the largest k for which that is at most 1 − kConfidence. Five samples are the fewest that have one.
// (H. A. David and H. N. Nagaraja, Order Statistics, 7.1.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoehorn {

inline constexpr double kConfidence = 0.9;

// The fewest samples of a setting for which it may be said to be faster than another. With three of each, chance alone
// puts all of one below all of the other in one of ten cases.
inline constexpr int64_t kFewestToCompare = 3;

struct MedianInterval {
  int64_t count = 0;
  double median = 0;
  double low = 0;  // of the interval; with fewer than five samples the least and the most
  double high = 0;
  double least = 0;
  double most = 0;
  double confidence = 0;  // that the true median lies from low to high
  int64_t outliers = 0;   // samples that took more than kOutlier times the median

  // Half of the interval's width ÷ the median.
  double relative_half_width() const { return median > 0 ? (high - low) / 2 / median : 0; }
  bool has_confidence() const { return confidence >= kConfidence; }
  // The rule by which steps are repeated no more: the interval has its confidence, and half of it is at most `precision`
  // of the median.
  bool is_stable(double precision) const { return has_confidence() && relative_half_width() <= precision; }
};

inline constexpr double kOutlier = 1.5;

// `samples` is not empty.
MedianInterval median_interval(std::vector<double> samples);

// True if the intervals do not overlap, and each has kFewestToCompare samples or more.
bool can_tell_apart(const MedianInterval& a, const MedianInterval& b);

}  // namespace shoehorn
