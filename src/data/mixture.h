// Sets of samples that are mixed by weight: the length of an epoch, and which set each place of the order draws from.
//
// Places are numbered through all epochs. After any number of them each set has had its share of the draws, to less
// than one draw (Tijdeman, The chairman assignment problem, 1980), so that any batch is about as the weights say. A
// set's draws go through its samples in one permutation after another (data/sampler.h): a set that is used up begins
// anew, while another may be half read at the end of a run. The place alone decides which set is drawn from and for the
// how-many-th time, which is why a run resumes exactly, and why ranks deal from one order.
//
// An epoch, as in datasets' interleave_datasets(stopping_strategy=…), is so many places that
//   kFirstExhausted   the first set is used up: in the first epoch no sample comes twice
//   kAllExhausted     all sets have been used up once: samples of the smaller ones come several times
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

enum class StoppingStrategy : uint8_t { kFirstExhausted, kAllExhausted };

// "first_exhausted", "all_exhausted".
std::string_view stopping_strategy_name(StoppingStrategy strategy);
std::optional<StoppingStrategy> find_stopping_strategy(std::string_view name);

// Weights as text, in any unit. UserError naming the flag: what is no number above 0, and one beside which another is
// nothing (a ratio above 10^9).
std::vector<double> parse_mixture_weights(std::string_view flag, std::span<const std::string> weights);

struct MixtureSet {
  std::string name;     // for people
  int64_t samples = 0;  // at least 1
  double weight = 1;    // in any unit: shares are of the sum
};

// Immutable.
class Mixture {
 public:
  // CHECKs that there are sets, with samples and with weights above 0. UserError: an epoch of 2^30 samples or more.
  Mixture(std::vector<MixtureSet> sets, StoppingStrategy strategy);

  int64_t sets() const { return static_cast<int64_t>(sets_.size()); }
  const MixtureSet& set(int64_t set) const { return sets_[static_cast<size_t>(set)]; }
  StoppingStrategy strategy() const { return strategy_; }
  // Of all draws, those from the set.
  double share(int64_t set) const { return shares_[static_cast<size_t>(set)]; }
  // Samples of all sets.
  int64_t samples() const { return samples_; }
  // Places of an epoch.
  int64_t epoch_size() const { return epoch_size_; }

 private:
  std::vector<MixtureSet> sets_;
  std::vector<double> shares_;
  StoppingStrategy strategy_;
  int64_t samples_ = 0;
  int64_t epoch_size_ = 0;
};

// Goes through the places from the first on. Not thread-safe; nothing allocates but the constructor. A place takes time
// in proportion to the number of sets.
class MixtureTurns {
 public:
  explicit MixtureTurns(std::span<const double> shares);
  explicit MixtureTurns(const Mixture& mixture);

  // The set of place(), which is then one further.
  int64_t next();
  int64_t place() const { return place_; }
  // How many of the places before place() draw from the set.
  int64_t draws(int64_t set) const { return draws_[static_cast<size_t>(set)]; }
  // Goes to a place; back to an earlier one by beginning anew.
  void go_to(int64_t place);

 private:
  std::vector<double> shares_;
  std::vector<int64_t> draws_;
  int64_t place_ = 0;
};

// How many of the first `samples` samples of a run are of each set. samples_an_epoch: epoch_size(), or fewer where the
// last ones of each epoch are left out (dataloader_drop_last).
std::vector<int64_t> mixture_draws(const Mixture& mixture, int64_t samples, int64_t samples_an_epoch);

}  // namespace shoehorn
