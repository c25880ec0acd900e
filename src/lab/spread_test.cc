#include "lab/spread.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace shoehorn {
namespace {

TEST(SpreadTest, OfThreeRuns) {
  const Spread spread = spread_of({0.82, 0.80, 0.84});
  EXPECT_EQ(spread.count, 3);
  EXPECT_NEAR(spread.mean, 0.82, 1e-15);
  EXPECT_NEAR(spread.deviation, 0.02, 1e-15);
  EXPECT_EQ(spread.low, 0.80);
  EXPECT_EQ(spread.high, 0.84);
  EXPECT_EQ(spread.median, 0.82);
  EXPECT_EQ(spread_of({1, 4, 2, 8}).median, 3);
  EXPECT_EQ(spread_of({7}).deviation, 0);
  EXPECT_THROW(spread_of({}), InternalError);
}

TEST(SpreadTest, ANanIsNotHidden) {
  const Spread spread = spread_of({0.8, std::nan(""), 0.7});
  EXPECT_TRUE(std::isnan(spread.mean));
  EXPECT_TRUE(std::isnan(spread.median));
  EXPECT_TRUE(std::isnan(spread.high));
}

// sqrt((2 · 0.02² + 1 · 0.01²) / 3 · (1/3 + 1/2)).
TEST(SpreadTest, PooledStandardError) {
  const Spread a = spread_of({0.80, 0.82, 0.84});
  const Spread b = spread_of({0.70, 0.70 + 0.01 * std::sqrt(2.0)});
  EXPECT_NEAR(b.deviation, 0.01, 1e-15);
  EXPECT_NEAR(pooled_standard_error(a, b), std::sqrt(0.0009 / 3 * (5.0 / 6)), 1e-15);
  EXPECT_THROW(pooled_standard_error(spread_of({1}), spread_of({1})), InternalError);
}

TEST(SpreadTest, LosesBeyondTwoStandardErrorsAndBelowTheLowestOnly) {
  const Spread reference = spread_of({0.80, 0.82, 0.84});
  // One run: the standard error is 0.02 · sqrt(1/3 + 1) = 0.0231.
  EXPECT_FALSE(loses(spread_of({0.81}), reference)) << "within the runs";
  EXPECT_FALSE(loses(spread_of({0.78}), reference)) << "below the lowest, within two standard errors";
  EXPECT_TRUE(loses(spread_of({0.77}), reference));
  EXPECT_FALSE(loses(spread_of({0.90}), reference));
  // Beyond two standard errors, and not below the lowest, which lies far from the other nineteen.
  std::vector<double> many(19, 0.82);
  many.push_back(0.72);
  const std::vector<double> some(20, 0.77);
  EXPECT_FALSE(loses(spread_of(some), spread_of(many)));
  EXPECT_TRUE(loses(spread_of(std::vector<double>(20, 0.71)), spread_of(many)));
}

}  // namespace
}  // namespace shoehorn
