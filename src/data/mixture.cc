#include "data/mixture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr std::array<std::string_view, 2> kStrategyNames = {"first_exhausted", "all_exhausted"};
// An epoch's places are gone through one by one to count them: some ten seconds.
constexpr int64_t kMostPlaces = int64_t{1} << 30;
constexpr double kLargestRatio = 1e9;

std::vector<double> shares_of(std::span<const MixtureSet> sets) {
  double sum = 0;
  for (const MixtureSet& set : sets) sum += set.weight;
  std::vector<double> shares;
  for (const MixtureSet& set : sets) shares.push_back(set.weight / sum);
  return shares;
}

}  // namespace

std::string_view stopping_strategy_name(StoppingStrategy strategy) {
  return kStrategyNames.at(static_cast<size_t>(strategy));
}

std::optional<StoppingStrategy> find_stopping_strategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategyNames, name);
  if (found == kStrategyNames.end()) return std::nullopt;
  return static_cast<StoppingStrategy>(found - kStrategyNames.begin());
}

std::vector<double> parse_mixture_weights(std::string_view flag, std::span<const std::string> weights) {
  std::vector<double> values;
  for (const std::string& text : weights) {
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value) ||
        value <= 0) {
      throw user_error("[{}] expected numbers above 0, got '{}'; leave out a file that is not to be read",
                       flag, text);
    }
    values.push_back(value);
  }
  if (values.empty()) return values;
  const auto [least, most] = std::ranges::minmax(values);
  if (most / least > kLargestRatio)
    throw user_error("[{}] expected weights within a factor of 10^9, got {} beside {}", flag, least, most);
  return values;
}

Mixture::Mixture(std::vector<MixtureSet> sets, StoppingStrategy strategy)
    : sets_(std::move(sets)), strategy_(strategy) {
  CHECK(!sets_.empty(), "a mixture of nothing");
  shares_ = shares_of(sets_);
  double least = std::numeric_limits<double>::infinity();  // places that use up the first set, about, …
  double most = 0;                                         // … and all of them
  for (int64_t i = 0; i < this->sets(); ++i) {
    CHECK(set(i).samples > 0 && set(i).weight > 0, "{} samples of weight {}", set(i).samples, set(i).weight);
    samples_ += set(i).samples;
    const double places = static_cast<double>(set(i).samples) / share(i);
    least = std::min(least, places);
    most = std::max(most, places);
  }
  const bool waits_for_all = strategy == StoppingStrategy::kAllExhausted;
  const double epoch = waits_for_all ? most : least;
  if (epoch >= static_cast<double>(kMostPlaces)) {
    throw user_error(
        "[stopping_strategy] expected an epoch of fewer than 2^30 samples, got {:.3g} of {}; a file has too many samples "
        "for its weight",
        epoch, stopping_strategy_name(strategy));
  }
  MixtureTurns turns(*this);
  for (int64_t exhausted = 0; exhausted < (waits_for_all ? this->sets() : 1);) {
    const int64_t drawn = turns.next();
    if (turns.draws(drawn) == set(drawn).samples) ++exhausted;
  }
  epoch_size_ = turns.place();
}

MixtureTurns::MixtureTurns(std::span<const double> shares)
    : shares_(shares.begin(), shares.end()), draws_(shares.size()) {}

MixtureTurns::MixtureTurns(const Mixture& mixture) : draws_(static_cast<size_t>(mixture.sets())) {
  for (int64_t i = 0; i < mixture.sets(); ++i) shares_.push_back(mixture.share(i));
}

// Tijdeman's rule: of the sets that may have a draw now without being ahead of their share by too much, the one whose
// share would be behind by too much first.
int64_t MixtureTurns::next() {
  const auto count = static_cast<double>(std::max<size_t>(2, shares_.size()));
  const double slack = 1 / (2 * count - 2);
  const auto places = static_cast<double>(++place_);
  size_t chosen = 0;
  double first_deadline = std::numeric_limits<double>::infinity();
  size_t most_behind = 0;
  double largest_lag = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < shares_.size(); ++i) {
    const double lag = shares_[i] * places - static_cast<double>(draws_[i]);
    if (lag > largest_lag) {
      largest_lag = lag;
      most_behind = i;
    }
    const double deadline = (1 - slack - lag) / shares_[i];
    if (lag >= slack && deadline < first_deadline) {
      first_deadline = deadline;
      chosen = i;
    }
  }
  // Where rounding left none that may have it.
  if (first_deadline == std::numeric_limits<double>::infinity()) chosen = most_behind;
  ++draws_[chosen];
  return static_cast<int64_t>(chosen);
}

void MixtureTurns::go_to(int64_t place) {
  if (place < place_) {
    std::ranges::fill(draws_, 0);
    place_ = 0;
  }
  while (place_ < place) next();
}

std::vector<int64_t> mixture_draws(const Mixture& mixture, int64_t samples, int64_t samples_an_epoch) {
  std::vector<int64_t> draws(static_cast<size_t>(mixture.sets()));
  MixtureTurns turns(mixture);
  for (int64_t epoch = 0; samples > 0; ++epoch) {
    turns.go_to(epoch * mixture.epoch_size());
    for (int64_t i = std::min(samples, samples_an_epoch); i > 0; --i)
      ++draws[static_cast<size_t>(turns.next())];
    samples -= samples_an_epoch;
  }
  return draws;
}

}  // namespace shoehorn
