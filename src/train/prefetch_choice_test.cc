#include "train/prefetch_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoehorn {
namespace {

// Of plans by depth, the first of which gathers nothing ahead.
int64_t prefetch_chosen_of(const std::vector<PrefetchPlan>& plans) {
  return choose_prefetch_layers([&](int64_t layers) { return plans.at(static_cast<size_t>(layers)); });
}

TEST(PrefetchChoice, IsOneLayerWhereNobodyKnowsTimes) {
  EXPECT_EQ(prefetch_chosen_of({{.fits = true}, {.fits = true}}), 1);
}

TEST(PrefetchChoice, IsNoneWhereOneLayerDoesNotFit) {
  EXPECT_EQ(prefetch_chosen_of({{.fits = true, .step_seconds = 2}, {.fits = false, .step_seconds = 1}}), 0);
}

TEST(PrefetchChoice, IsDeeperAsLongAsThatFitsAndPays) {
  const auto of_seconds = [](std::vector<double> seconds) {
    std::vector<PrefetchPlan> plans;
    for (const double of_one : seconds) plans.push_back({.fits = true, .step_seconds = of_one});
    return plans;
  };
  EXPECT_EQ(prefetch_chosen_of(of_seconds({9, 8, 7.8, 7.79, 1})), 2);
  EXPECT_EQ(prefetch_chosen_of(of_seconds({9, 8, 7, 6, 5})), kMostPrefetchLayers);
  EXPECT_EQ(prefetch_chosen_of(of_seconds({9, 8, 8, 1})), 1);
  std::vector<PrefetchPlan> plans = of_seconds({9, 8, 7, 6, 5});
  plans[3].fits = false;
  EXPECT_EQ(prefetch_chosen_of(plans), 2);
}

}  // namespace
}  // namespace shoehorn
