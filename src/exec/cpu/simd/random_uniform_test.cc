#include "exec/cpu/simd/random_uniform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::with_threads;

std::vector<float> drawn(uint64_t seed, uint32_t stream, int64_t first, int64_t count, float bound = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  fill_uniform({.seed = seed, .stream = stream, .first = first, .bound = bound, .values = values});
  return values;
}

// Mean, variance and quarters of a uniform distribution: each within 6 standard errors of 10^5 draws.
TEST(FillUniform, IsUniformBetweenItsBounds) {
  constexpr int64_t kCount = 100'000;
  constexpr float kBound = 0.125F;
  const std::vector<float> values = drawn(42, 3, 0, kCount, kBound);
  double sum = 0;
  double squares = 0;
  int64_t quarters[4] = {};
  for (const float value : values) {
    ASSERT_TRUE(value >= -kBound && value < kBound) << value;
    sum += value;
    squares += static_cast<double>(value) * value;
    ++quarters[static_cast<size_t>((value + kBound) / kBound * 2)];
  }
  const double variance = kBound * kBound / 3.0;
  EXPECT_NEAR(sum / kCount, 0, 6 * std::sqrt(variance / kCount));
  EXPECT_NEAR(squares / kCount, variance, 6 * variance * std::sqrt(0.8 / kCount));
  for (const int64_t quarter : quarters)
    EXPECT_NEAR(static_cast<double>(quarter), kCount / 4.0, 6 * std::sqrt(kCount * 0.25 * 0.75));
}

TEST(FillUniform, APartIsThatPartOfTheWhole) {
  const std::vector<float> whole = drawn(7, 1, 0, 50'001);
  for (const int64_t first : {1, 3, 4, 16'385}) {
    const std::vector<float> part = drawn(7, 1, first, 1000);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
  }
  with_threads(1, [&] { EXPECT_EQ(drawn(7, 1, 0, 50'001), whole); });
}

TEST(FillUniform, SeedsAndStreamsDiffer) {
  EXPECT_NE(drawn(7, 1, 0, 8), drawn(8, 1, 0, 8));
  EXPECT_NE(drawn(7, 1, 0, 8), drawn(7, 2, 0, 8));
}

}  // namespace
}  // namespace shoehorn::cpu
