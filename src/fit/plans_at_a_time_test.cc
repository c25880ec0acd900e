#include "fit/plans_at_a_time.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/processors.h"

namespace shoehorn {
namespace {

constexpr int64_t kPlanPeak = int64_t{100} << 20;

TEST(PlansAtATime, EachHasTwiceThePeak) {
  constexpr int64_t kProcessors = 64;
  EXPECT_EQ(plans_at_a_time(int64_t{2} << 30, kPlanPeak, kProcessors), 10U);
  EXPECT_EQ(plans_at_a_time(6 * kPlanPeak, kPlanPeak, kProcessors), 3U);
  EXPECT_EQ(plans_at_a_time(6 * kPlanPeak - 1, kPlanPeak, kProcessors), 2U);
}

TEST(PlansAtATime, AtLeastOneAndAtMostTheProcessors) {
  EXPECT_EQ(plans_at_a_time(0, kPlanPeak, 8), 1U);
  EXPECT_EQ(plans_at_a_time(kPlanPeak, kPlanPeak, 8), 1U);
  EXPECT_EQ(plans_at_a_time(int64_t{1} << 40, kPlanPeak, 8), 8U);
  EXPECT_EQ(plans_at_a_time(std::numeric_limits<int64_t>::max(), 0, 8), 8U) << "no limit, no peak is known";
  EXPECT_EQ(plans_at_a_time(0, 0, 0), 1U);
}

TEST(PlansAtATime, OfThisProcess) {
  const size_t plans = plans_at_a_time();
  EXPECT_GE(plans, 1U);
  EXPECT_LE(plans, static_cast<size_t>(processors().usable()));
}

}  // namespace
}  // namespace shoehorn
