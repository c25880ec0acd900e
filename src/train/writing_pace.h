// How often a file that is watched is written anew.
#pragma once

#include <algorithm>

namespace shoehorn {

inline constexpr double kLeastSecondsBetweenPages = 3;
inline constexpr double kMostShareOfTime = 0.01;  // that writing takes

class WritingPace {
 public:
  // True at first, and then where enough time has gone by. Seconds of any clock.
  bool is_due(double now) const { return now >= next_; }
  void written(double begin, double end) {
    next_ = end + std::max(kLeastSecondsBetweenPages, (end - begin) / kMostShareOfTime);
  }

 private:
  double next_ = 0;
};

}  // namespace shoehorn
