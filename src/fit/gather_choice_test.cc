#include "fit/gather_choice.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace shoehorn {
namespace {

constexpr OpenGathering kLayersOpen = {.persistence_threshold = false};

// Of plans by depth, the first of which gathers nothing ahead.
int64_t depth_chosen_of(const std::vector<GatheringPlan>& plans) {
  return choose_gathering(
             {}, kLayersOpen,
             [&](const Gathering& one) { return plans.at(static_cast<size_t>(one.prefetch_layers)); })
      .prefetch_layers;
}

TEST(GatherChoice, IsOneLayerWhereNobodyKnowsTimes) {
  EXPECT_EQ(depth_chosen_of({{.fits = true}, {.fits = true}}), 1);
}

TEST(GatherChoice, IsNoLayerWhereOneDoesNotFit) {
  EXPECT_EQ(depth_chosen_of({{.fits = true, .step_seconds = 2}, {.fits = false, .step_seconds = 1}}), 0);
}

TEST(GatherChoice, IsDeeperAsLongAsThatFitsAndPays) {
  const auto of_seconds = [](std::vector<double> seconds) {
    std::vector<GatheringPlan> plans;
    for (const double of_one : seconds) plans.push_back({.fits = true, .step_seconds = of_one});
    return plans;
  };
  EXPECT_EQ(depth_chosen_of(of_seconds({9, 8, 7.8, 7.79, 1})), 2);
  EXPECT_EQ(depth_chosen_of(of_seconds({9, 8, 7, 6, 5})), kMostPrefetchLayers);
  EXPECT_EQ(depth_chosen_of(of_seconds({9, 8, 8, 1})), 1);
  std::vector<GatheringPlan> plans = of_seconds({9, 8, 7, 6, 5});
  plans[3].fits = false;
  EXPECT_EQ(depth_chosen_of(plans), 2);
}

TEST(GatherChoice, KeepsNothingWholeWhereNothingElseFits) {
  const auto chosen_where = [](const OpenGathering& open, auto fits) {
    return choose_gathering({}, open, [&](const Gathering& one) { return GatheringPlan{.fits = fits(one)}; });
  };
  const auto never = [](const Gathering&) { return false; };
  EXPECT_EQ(chosen_where({}, never), (Gathering{0, 0}));
  EXPECT_EQ(chosen_where({.persistence_threshold = false}, never), (Gathering{0, 100'000}));
  EXPECT_EQ(chosen_where({.prefetch_layers = false}, never), (Gathering{1, 0}));
  const auto without_a_layer_ahead = [](const Gathering& one) { return one.prefetch_layers == 0; };
  EXPECT_EQ(chosen_where({}, without_a_layer_ahead), (Gathering{0, 100'000}));
}

TEST(GatherChoice, KeepsLargerWeightsWholeWhereThatPays) {
  const auto chosen_of = [](const Gathering& first, const OpenGathering& open, double seconds_of_larger,
                            bool larger_fits) {
    return choose_gathering(first, open, [&](const Gathering& one) {
      const bool is_larger = one.persistence_threshold > 100'000;
      return GatheringPlan{.fits = !is_larger || larger_fits,
                           .step_seconds = is_larger ? seconds_of_larger : 2.0};
    });
  };
  EXPECT_EQ(chosen_of({}, {}, 1.9, true), (Gathering{1, 1'000'000}));
  EXPECT_EQ(chosen_of({}, {}, 1.9, false), Gathering{});
  EXPECT_EQ(chosen_of({}, {}, 1.99, true), Gathering{});
  EXPECT_EQ(chosen_of({}, kLayersOpen, 1.0, true), Gathering{});
  EXPECT_EQ(chosen_of({3, 100'000}, {.prefetch_layers = false}, 1.0, true), (Gathering{3, 1'000'000}));
}

}  // namespace
}  // namespace shoehorn
