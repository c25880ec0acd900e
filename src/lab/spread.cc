#include "lab/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/median.h"

namespace shoehorn {

Spread spread_of(std::vector<double> values) {
  CHECK(!values.empty(), "no values");
  Spread spread{.count = static_cast<int64_t>(values.size())};
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  if (std::isnan(spread.mean)) {
    spread.deviation = spread.low = spread.high = spread.median = std::numeric_limits<double>::quiet_NaN();
    return spread;
  }
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (count - 1));
  std::sort(values.begin(), values.end());
  spread.low = values.front();
  spread.high = values.back();
  spread.median = median(std::move(values));
  return spread;
}

bool have_spread(const Spread& a, const Spread& b) {
  return a.count + b.count > 2;
}

double pooled_standard_error(const Spread& a, const Spread& b) {
  CHECK(have_spread(a, b), "{} runs have no spread", a.count + b.count);
  const auto freedom = [](const Spread& spread) { return static_cast<double>(spread.count - 1); };
  const double variance = (freedom(a) * a.deviation * a.deviation + freedom(b) * b.deviation * b.deviation) /
                          (freedom(a) + freedom(b));
  return std::sqrt(variance * (1 / static_cast<double>(a.count) + 1 / static_cast<double>(b.count)));
}

bool loses(const Spread& rung, const Spread& reference) {
  return rung.mean < reference.low && rung.mean < reference.mean - 2 * pooled_standard_error(rung, reference);
}

}  // namespace shoehorn
