#include "exec/cpu/simd/random_normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace shoehorn::cpu {
namespace {

std::vector<float> draw(int64_t count, uint64_t seed = 42, uint32_t stream = 0, int64_t first = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  fill_normal({.seed = seed,
               .stream = stream,
               .first = first,
               .mean = 0.5F,
               .standard_deviation = 2,
               .values = values});
  return values;
}

// Bounds of five standard errors of each estimate.
TEST(RandomNormal, MomentsAndTails) {
  constexpr int64_t kCount = 1 << 20;
  const std::vector<float> values = draw(kCount);
  double mean = 0, square = 0, fourth = 0, beyond_two = 0;
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    const double z = (value - 0.5) / 2;
    mean += z / kCount;
    square += z * z / kCount;
    fourth += z * z * z * z / kCount;
    beyond_two += std::abs(z) > 2 ? 1.0 / kCount : 0;
  }
  const double error = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(mean, 0, error);
  EXPECT_NEAR(square, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(fourth, 3, error * std::sqrt(96.0));
  EXPECT_NEAR(beyond_two, 0.04550, error * std::sqrt(0.0455));
}

TEST(RandomNormal, PartsAreTheSameAsTheWhole) {
  const std::vector<float> whole = draw(100'003);
  const std::vector<float> tail = draw(100'003 - 64 * 700, 42, 0, 64 * 700);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 64 * 700));
}

TEST(RandomNormal, SeedsAndStreamsDiffer) {
  EXPECT_NE(draw(64), draw(64, 43));
  EXPECT_NE(draw(64), draw(64, 42, 1));
  EXPECT_EQ(draw(64), draw(64));
}

}  // namespace
}  // namespace shoehorn::cpu
