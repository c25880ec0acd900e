// How far a run's numbers of each step are from those of another.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace shoehorn::test_support {

// The largest relative difference of a curve from `expected`.
inline double largest_relative_difference(const std::vector<double>& curve,
                                          const std::vector<double>& expected) {
  EXPECT_EQ(curve.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(curve.size(), expected.size()); ++i) {
    // 0: a learning rate at the end of its schedule.
    const double difference = std::abs(curve[i] - expected[i]);
    largest = std::max(largest, expected[i] == 0 ? difference : difference / std::abs(expected[i]));
  }
  return largest;
}

}  // namespace shoehorn::test_support
