#include "lab/median_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace shoehorn {
namespace {

std::vector<double> counted(int count) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// The ranks of tables of the sign test, two-sided at 10 %.
TEST(MedianInterval, RanksAreThoseOfTheSignTest) {
  const std::vector<std::pair<int, int>> ranks = {{5, 1},  {8, 2},  {10, 2}, {11, 3},
                                                  {15, 4}, {20, 6}, {30, 11}};
  for (const auto& [count, rank] : ranks) {
    const MedianInterval interval = median_interval(counted(count));
    EXPECT_EQ(interval.low, rank) << count;
    EXPECT_EQ(interval.high, count + 1 - rank) << count;
    EXPECT_GE(interval.confidence, kConfidence) << count;
  }
  EXPECT_DOUBLE_EQ(median_interval(counted(5)).confidence, 1 - 2.0 / 32);
  EXPECT_DOUBLE_EQ(median_interval(counted(8)).confidence, 1 - 2.0 * 9 / 256);
}

TEST(MedianInterval, FewSamplesHaveNoConfidence) {
  EXPECT_DOUBLE_EQ(median_interval({3}).confidence, 0);
  const MedianInterval four = median_interval({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(four.confidence, 1 - 2.0 / 16);
  EXPECT_EQ(four.low, 1);
  EXPECT_EQ(four.high, 4);
  EXPECT_FALSE(median_interval({1, 1, 1, 1}).is_stable(0.02));
  EXPECT_TRUE(median_interval({1, 1, 1, 1, 1}).is_stable(0.02));
}

TEST(MedianInterval, OneInterruptedStepMovesNothingOfMany) {
  const MedianInterval interval = median_interval({1.00, 1.01, 0.99, 1.00, 1.01, 1.00, 0.99, 9.00});
  EXPECT_EQ(interval.median, 1.00);
  EXPECT_EQ(interval.high, 1.01);
  EXPECT_EQ(interval.most, 9.00);
  EXPECT_EQ(interval.outliers, 1);
  EXPECT_TRUE(interval.is_stable(0.02));
  EXPECT_FALSE(interval.is_stable(0.005));
}

TEST(MedianInterval, OverlapsCannotBeToldApart) {
  const MedianInterval fast = median_interval({1.0, 1.1, 1.2});
  EXPECT_TRUE(can_tell_apart(fast, median_interval({1.3, 1.4, 1.5})));
  EXPECT_TRUE(can_tell_apart(median_interval({1.3, 1.4, 1.5}), fast));
  EXPECT_FALSE(can_tell_apart(fast, median_interval({1.15, 1.4, 1.5})));
  EXPECT_FALSE(can_tell_apart(fast, median_interval({1.3, 1.4}))) << "too few";
}

// The true median lies outside of the interval as often as it says, and not more.
TEST(MedianInterval, CoversTheTrueMedian) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> step(0, 0.5);  // skewed, as times are; its median is 1
  constexpr int kTrials = 4000;
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(9);
    for (double& sample : samples) sample = step(random);
    const MedianInterval interval = median_interval(samples);
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  // 9 samples: ranks 2 and 8, 0.961; four deviations of the count are 0.012.
  EXPECT_NEAR(static_cast<double>(covered) / kTrials, 1 - 2.0 * 10 / 512, 0.013);
}

}  // namespace
}  // namespace shoehorn
