#include "lab/median_interval.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/median.h"

namespace shoehorn {

MedianInterval median_interval(std::vector<double> samples) {
  CHECK(!samples.empty(), "a median of no samples");
  std::sort(samples.begin(), samples.end());
  MedianInterval interval{.count = std::ssize(samples), .median = median(samples)};
  interval.least = samples.front();
  interval.most = samples.back();
  const auto n = static_cast<double>(samples.size());
  // P(Binomial(n, ½) = at), beginning with none; its sum so far is that of fewer than k.
  double probability = std::exp2(-n);
  double fewer = probability;
  size_t k = 1;
  interval.confidence = 1 - 2 * fewer;
  while (2 * (k + 1) <= samples.size() + 1) {
    const auto at = static_cast<double>(k);
    probability *= (n - at + 1) / at;
    if (1 - 2 * (fewer + probability) < kConfidence) break;
    fewer += probability;
    interval.confidence = 1 - 2 * fewer;
    ++k;
  }
  interval.low = samples[k - 1];
  interval.high = samples[samples.size() - k];
  interval.outliers = std::count_if(samples.begin(), samples.end(),
                                    [&](double sample) { return sample > kOutlier * interval.median; });
  return interval;
}

bool can_tell_apart(const MedianInterval& a, const MedianInterval& b) {
  if (std::min(a.count, b.count) < kFewestToCompare) return false;
  return a.high < b.low || b.high < a.low;
}

}  // namespace shoehorn
