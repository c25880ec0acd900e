#include "data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

Mixture mixture_of(const std::vector<int64_t>& samples, const std::vector<double>& weights,
                   StoppingStrategy strategy = StoppingStrategy::kFirstExhausted) {
  std::vector<MixtureSet> sets;
  for (size_t i = 0; i < samples.size(); ++i)
    sets.push_back({.name = fmt::format("set {}", i), .samples = samples[i], .weight = weights[i]});
  return {std::move(sets), strategy};
}

// Tijdeman's bound, 1 - 1 / (2 n - 2), at every place, which no order can have smaller for all shares.
TEST(Mixture, EveryPlaceHasTheSharesToLessThanOneDraw) {
  std::mt19937 engine(11);
  std::uniform_real_distribution<double> weight(0.001, 1);
  for (size_t sets = 1; sets <= 9; ++sets) {
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<double> weights(sets);
      for (double& value : weights) value = turn == 0 ? 1 : std::pow(weight(engine), turn % 4 + 1);
      const Mixture mixture = mixture_of(std::vector<int64_t>(sets, 5), weights);
      MixtureTurns turns(mixture);
      const double bound = sets == 1 ? 1e-9 : 1 - 1 / (2 * static_cast<double>(sets) - 2);
      double farthest = 0;
      for (int64_t place = 1; place <= 3000; ++place) {
        turns.next();
        for (int64_t set = 0; set < mixture.sets(); ++set) {
          const double due = mixture.share(set) * static_cast<double>(place);
          farthest = std::max(farthest, std::abs(due - static_cast<double>(turns.draws(set))));
        }
      }
      EXPECT_LE(farthest, bound + 1e-9) << sets << " sets, turn " << turn;
    }
  }
}

TEST(Mixture, AnEpochEndsWhereASetDoes) {
  using enum StoppingStrategy;
  EXPECT_EQ(mixture_of({100}, {0.3}).epoch_size(), 100);
  EXPECT_EQ(mixture_of({10, 10}, {1, 1}).epoch_size(), 19) << "the tenth of the first set";
  EXPECT_EQ(mixture_of({10, 10}, {1, 1}, kAllExhausted).epoch_size(), 20);
  for (const auto strategy : {kFirstExhausted, kAllExhausted}) {
    const Mixture mixture = mixture_of({100, 1000}, {0.7, 0.3}, strategy);
    EXPECT_NEAR(static_cast<double>(mixture.epoch_size()),
                strategy == kFirstExhausted ? 100 / 0.7 : 1000 / 0.3, 4)
        << stopping_strategy_name(strategy);
    MixtureTurns turns(mixture);
    turns.go_to(mixture.epoch_size() - 1);
    const int64_t exhausted = strategy == kFirstExhausted ? 0 : 1;
    EXPECT_EQ(turns.draws(exhausted), mixture.set(exhausted).samples - 1);
    EXPECT_EQ(turns.next(), exhausted);
  }
  // A few samples of a tiny weight make an epoch of hours.
  EXPECT_TRUE(contains(
      refusal_of([] { mixture_of({48, 24}, {1e9, 1}, kAllExhausted); }),
      "[stopping_strategy] expected an epoch of fewer than 2^30 samples, got 2.4e+10 of all_exhausted"));
  EXPECT_EQ(mixture_of({48, 24}, {1e9, 1}, kFirstExhausted).epoch_size(), 48);
}

TEST(Mixture, APlaceSaysWhatWasDrawn) {
  const Mixture mixture = mixture_of({7, 9, 4}, {3, 2.5, 0.25});
  MixtureTurns on(mixture);
  MixtureTurns to(mixture);
  std::vector<int64_t> sets;
  for (int64_t place = 0; place < 50; ++place) sets.push_back(on.next());
  for (const int64_t place : {40, 3, 3, 17, 0, 49}) {
    to.go_to(place);
    EXPECT_EQ(to.place(), place);
    EXPECT_EQ(to.next(), sets[static_cast<size_t>(place)]);
  }
}

TEST(Mixture, DrawsOfARunLeaveOutWhatEpochsLeaveOut) {
  const Mixture mixture = mixture_of({5, 50}, {1, 2});
  const int64_t epoch = mixture.epoch_size();
  const auto drawn = [&](int64_t from, int64_t to) {
    MixtureTurns turns(mixture);
    turns.go_to(from);
    std::vector<int64_t> draws(2);
    while (turns.place() < to) ++draws[static_cast<size_t>(turns.next())];
    return draws;
  };
  EXPECT_EQ(mixture_draws(mixture, 2 * epoch + 3, epoch), drawn(0, 2 * epoch + 3));
  const std::vector<int64_t> first = drawn(0, epoch - 2);
  const std::vector<int64_t> second = drawn(epoch, epoch + 4);
  EXPECT_EQ(mixture_draws(mixture, epoch - 2 + 4, epoch - 2),
            (std::vector<int64_t>{first[0] + second[0], first[1] + second[1]}));
}

TEST(Mixture, WeightsAreNumbersAboveZero) {
  const auto refusal = [](const std::vector<std::string>& weights) {
    return refusal_of([&] { parse_mixture_weights("train_file_weights", weights); });
  };
  const std::vector<std::string> good = {"70", "0.3", "1e-3"};
  EXPECT_EQ(parse_mixture_weights("train_file_weights", good), (std::vector<double>{70, 0.3, 1e-3}));
  for (const char* bad : {"0", "-0.5", "nan", "inf", "1e999", "half", "0.5x", ""}) {
    EXPECT_TRUE(contains(refusal({"1", bad}),
                         fmt::format("[train_file_weights] expected numbers above 0, got '{}'", bad)));
  }
  EXPECT_TRUE(contains(refusal({"1", "1e10"}), "[train_file_weights] expected weights within a factor"));
  for (const auto strategy : {StoppingStrategy::kFirstExhausted, StoppingStrategy::kAllExhausted})
    EXPECT_EQ(find_stopping_strategy(stopping_strategy_name(strategy)), strategy);
  EXPECT_EQ(find_stopping_strategy("never"), std::nullopt);
}

}  // namespace
}  // namespace shoehorn
