#include "lab/link_load.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

// Two ranks that are bound to a processor each, which they use as ranks do that mostly wait.
LinkLoad two_bound_ranks(double others_of_second) {
  return {.ranks = {{.host = "host-a", .processors = "0", .own = 0.6, .others = 0.02},
                    {.host = "host-a", .processors = "1", .own = 0.6, .others = others_of_second}},
          .spread = 0.2};
}

TEST(LinkLoad, NothingElseDisturbsNothing) {
  EXPECT_EQ(disturbance(two_bound_ranks(0.05)), "");
  EXPECT_EQ(disturbance({}), "");
  EXPECT_EQ(disturbance(two_bound_ranks(-1)), "") << "the system does not say";
}

TEST(LinkLoad, OtherProcessesOnTheProcessorOfOneRankDisturb) {
  EXPECT_EQ(disturbance(two_bound_ranks(0.4)), "other processes used 0.4 of 1 processor of host-a");
}

// Four ranks on two processors: each sees the other three beside what else there is.
TEST(LinkLoad, RanksThatShareProcessorsDoNotDisturbEachOther) {
  const auto load = [](double others) {
    return LinkLoad{.ranks = std::vector<RankLoad>(4, {.host = "host-a",
                                                       .processors = "0-1",
                                                       .processor_count = 2,
                                                       .own = 0.25,
                                                       .others = 3 * 0.25 + others})};
  };
  EXPECT_EQ(disturbance(load(0)), "");
  EXPECT_EQ(disturbance(load(1)), "other processes used 1.0 of 2 processors of host-a");
}

// Those of another host are no neighbours, though their processors have the same numbers.
TEST(LinkLoad, HostsAreLookedAtOneByOne) {
  LinkLoad load = two_bound_ranks(0.7);
  load.ranks[1].host = "host-b";
  load.ranks[1].processors = load.ranks[0].processors;
  EXPECT_EQ(disturbance(load), "other processes used 0.7 of 1 processor of host-b");
}

TEST(LinkLoad, TimesThatDoNotRepeatThemselvesDisturb) {
  LinkLoad load = two_bound_ranks(0.05);
  load.spread = 0.8;
  EXPECT_EQ(disturbance(load), "all-reduces of the same bytes differed by 80 %");
}

TEST(LinkLoad, SpreadIsOfTheMiddleHalf) {
  EXPECT_EQ(relative_spread({3}), 0);
  EXPECT_DOUBLE_EQ(relative_spread({2, 1, 4}), 1.5);
  EXPECT_DOUBLE_EQ(relative_spread({100, 3, 1, 4, 2, 4, 4, 5}), (4.0 - 3.0) / 4) << "outliers are left out";
}

}  // namespace
}  // namespace shoehorn
