#include "data/sampler.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

std::vector<int64_t> sampled_order(Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(sampler.size()));
  sampler.epoch_order(epoch, order);
  return order;
}

// (That whole epochs equal the Trainer's is tested in window_iterator_test.cc, on its windows.)
TEST(Sampler, AnEpochFollowsFromItsNumberAlone) {
  std::vector<int32_t> lengths(101);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int32_t>(i * 37 % 23 + 1);
  for (const auto strategy :
       {SamplingStrategy::kRandom, SamplingStrategy::kSequential, SamplingStrategy::kGroupByLength}) {
    Sampler one({.strategy = strategy, .seed = 9, .group_size = 6}, lengths);
    Sampler other = one;
    const auto second = sampled_order(one, 2);
    const auto first = sampled_order(one, 1);
    EXPECT_EQ(sampled_order(other, 1), first);
    EXPECT_EQ(sampled_order(other, 2), second);
    EXPECT_EQ(first == second, strategy == SamplingStrategy::kSequential);
  }
}

TEST(Sampler, DataSeedTakesThePlaceOfTheSeed) {
  Sampler given({.seed = 9, .data_seed = 4}, 100);
  Sampler four({.seed = 4}, 100);
  Sampler nine({.seed = 9}, 100);
  EXPECT_EQ(sampled_order(given, 3), sampled_order(four, 3));
  EXPECT_NE(sampled_order(given, 3), sampled_order(nine, 3));
}

TEST(Sampler, EveryOrderIsAPermutation) {
  for (const size_t n : {1U, 2U, 15U, 64U, 257U}) {
    std::vector<int32_t> lengths(n);
    for (size_t i = 0; i < n; ++i) lengths[i] = static_cast<int32_t>(i * 7919 % 97 + 1);
    for (const int64_t group : {1, 3, 8, 1000}) {
      for (const auto strategy :
           {SamplingStrategy::kRandom, SamplingStrategy::kSequential, SamplingStrategy::kGroupByLength}) {
        Sampler sampler({.strategy = strategy, .group_size = group}, lengths);
        auto order = sampled_order(sampler, 1);
        std::sort(order.begin(), order.end());
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(order[i], static_cast<int64_t>(i));
      }
    }
  }
}

TEST(Sampler, GroupByLengthPutsTheLongestFirstAndSavesPadding) {
  std::vector<int32_t> lengths(4000);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int32_t>(i * 7919 % 509 + 1);
  const auto padded = [&](const std::vector<int64_t>& order) {
    int64_t slots = 0;
    for (size_t begin = 0; begin < order.size(); begin += 8) {
      int32_t longest = 0;
      for (size_t i = begin; i < begin + 8; ++i)
        longest = std::max(longest, lengths[static_cast<size_t>(order[i])]);
      slots += 8 * longest;
    }
    return slots;
  };
  Sampler grouped({.strategy = SamplingStrategy::kGroupByLength, .group_size = 8}, lengths);
  Sampler random({.strategy = SamplingStrategy::kRandom}, lengths);
  const auto order = sampled_order(grouped, 0);
  EXPECT_EQ(lengths[static_cast<size_t>(order[0])], *std::max_element(lengths.begin(), lengths.end()));
  EXPECT_LT(static_cast<double>(padded(order)), 0.65 * static_cast<double>(padded(sampled_order(random, 0))));
}

TEST(Sampler, Errors) {
  EXPECT_THROW(Sampler({}, {}), UserError);
  const std::vector<int32_t> lengths = {1, 2};
  EXPECT_THROW(Sampler({.strategy = SamplingStrategy::kGroupByLength, .group_size = 0}, lengths), UserError);
  EXPECT_EQ(parse_sampling_strategy("group_by_length"), SamplingStrategy::kGroupByLength);
  EXPECT_TRUE(
      contains(message_of<UserError>([] { parse_sampling_strategy("randm"); }), "did you mean 'random'"));
}

}  // namespace
}  // namespace shoehorn
