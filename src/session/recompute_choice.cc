#include "session/recompute_choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "passes/recompute.h"
#include "session/recompute_options.h"

namespace shoehorn {

namespace {

// What is freed is raised this often until the step of a choice is within the budget.
constexpr int kMostCorrections = 8;
// Of each packing that tells whether one more value can be kept. Most of the hundreds of values that are looked at fit by their
// bytes and in no packing, and a search for one would end with its whole effort spent.
constexpr int64_t kKeepEffort = kDefaultPackEffort / 64;
// Exchanges of values end when the steps that were made to try them have so many nodes together: all of them in a small model, a
// few in one of many layers, where a single value is a small part of the step.
constexpr int64_t kMostExchangeNodes = 8192;
// Sums of seconds that differ by less are equal but for their rounding.
constexpr double kSameSeconds = 1e-9;
// Sums of layers that are remembered between two of them.
constexpr size_t kMostSums = 2048;

// A choice for the layers so far.
struct Sum {
  int64_t freed_bytes = 0;
  double seconds = 0;
  size_t before = 0;  // the sum without the last layer
  size_t option = 0;  // of the last layer
};

// Sums of which no one beats another, cheapest first.
using Frontier = std::vector<Sum>;

// Of two frontiers.
Frontier joined(const Frontier& a, const Frontier& b) {
  const auto is_better = [](const Sum& left, const Sum& right) {
    return left.seconds != right.seconds ? left.seconds < right.seconds
                                         : left.freed_bytes > right.freed_bytes;
  };
  Frontier both;
  both.reserve(a.size() + b.size());
  for (auto left = a.begin(), right = b.begin(); left != a.end() || right != b.end();) {
    const bool takes_right = left == a.end() || (right != b.end() && is_better(*right, *left));
    const Sum& sum = takes_right ? *right++ : *left++;
    if (both.empty() || sum.freed_bytes > both.back().freed_bytes) both.push_back(sum);
  }
  return both;
}

// With one more layer. Pairs of frontiers, one for each of its options, are joined until one is left: of more sums than can be
// kept, evenly spread ones.
Frontier with_layer(const Frontier& sums, const LayerOptions& layer, int64_t needed_bytes) {
  std::vector<Frontier> open;
  for (size_t option = 0; option < layer.options.size(); ++option) {
    const RecomputeOption& added = layer.options[option];
    Frontier longer;
    longer.reserve(sums.size());
    for (size_t before = 0; before < sums.size(); ++before) {
      longer.push_back({std::min(needed_bytes, sums[before].freed_bytes + added.freed_bytes),
                        sums[before].seconds + added.seconds, before, option});
      if (longer.back().freed_bytes == needed_bytes) break;  // those that follow free no more
    }
    open.push_back(std::move(longer));
  }
  while (open.size() > 1) {
    std::vector<Frontier> fewer;
    for (size_t i = 0; i + 1 < open.size(); i += 2) fewer.push_back(joined(open[i], open[i + 1]));
    if (open.size() % 2 == 1) fewer.push_back(std::move(open.back()));
    open = std::move(fewer);
  }
  const Frontier& best = open.front();
  if (best.size() <= kMostSums) return best;
  Frontier spread;
  for (size_t i = 0; i < kMostSums; ++i) spread.push_back(best[i * (best.size() - 1) / (kMostSums - 1)]);
  return spread;
}

// The least seconds that free as many bytes; nothing if all options together free less. Of each layer one option.
std::optional<std::vector<size_t>> choose_options(const std::vector<LayerOptions>& layers,
                                                  int64_t needed_bytes) {
  std::vector<Frontier> sums = {{Sum{}}};
  for (const LayerOptions& layer : layers) sums.push_back(with_layer(sums.back(), layer, needed_bytes));
  const auto enough = std::find_if(sums.back().begin(), sums.back().end(),
                                   [&](const Sum& sum) { return sum.freed_bytes >= needed_bytes; });
  if (enough == sums.back().end()) return std::nullopt;
  std::vector<size_t> chosen(layers.size());
  auto at = static_cast<size_t>(enough - sums.back().begin());
  for (size_t layer = layers.size(); layer-- > 0;) {
    chosen[layer] = sums[layer + 1][at].option;
    at = sums[layer + 1][at].before;
  }
  return chosen;
}

// Of layers that are alike the lower ones get what frees more: their values wait longer.
void sink(const std::vector<LayerOptions>& layers, std::vector<size_t>& chosen) {
  std::map<size_t, std::vector<size_t>> alike;
  for (size_t i = 0; i < layers.size(); ++i) alike[layers[i].alike].push_back(i);
  for (const auto& [kind, members] : alike) {
    std::vector<size_t> options;
    for (const size_t layer : members) options.push_back(chosen[layer]);
    std::sort(options.rbegin(), options.rend());
    for (size_t i = 0; i < members.size(); ++i) chosen[members[i]] = options[i];
  }
}

std::set<std::string> names_of(const std::vector<LayerOptions>& layers, const std::vector<size_t>& chosen) {
  std::set<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::vector<std::string>& of_layer = layers[i].options[chosen[i]].names;
    names.insert(of_layer.begin(), of_layer.end());
  }
  return names;
}

// A name's layer, and what it is called in each layer: 3 and "feed_forward.product" of "layer.3.feed_forward.product"; -1 and
// the name of what belongs to no layer.
struct PlaceOfName {
  int32_t layer = -1;
  std::string_view in_layer;
};

PlaceOfName place_of(std::string_view name) {
  constexpr std::string_view kPrefix = "layer.";
  PlaceOfName place{.in_layer = name};
  if (!name.starts_with(kPrefix)) return place;
  const char* const digits = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  int32_t layer = -1;
  const auto [after, error] = std::from_chars(digits, end, layer);
  if (error != std::errc() || after == end || *after != '.') return place;
  return {layer, std::string_view(after + 1, end)};
}

constexpr size_t kNoLayer = std::numeric_limits<size_t>::max();

struct NamesByLayer {
  std::set<std::string> all = {};
  double seconds = 0;  // of what is made again with them
  std::map<int32_t, std::vector<std::string>> of_layer = {};
  bool has_bases = false;  // what other layers start from is among them
};

// What they are called in their layers.
std::vector<std::string> names_in_layer(const std::vector<std::string>& names) {
  std::vector<std::string> in_layer;
  for (const std::string& name : names) in_layer.emplace_back(place_of(name).in_layer);
  return in_layer;
}

// Of a layer and its neighbours the kinds and what is recomputed in them; and what of the layer is kept instead.
struct SavedKey {
  std::vector<size_t> alike = {};
  std::vector<std::vector<std::string>> names = {};
  std::vector<std::string> gone = {};
  auto operator<=>(const SavedKey&) const = default;
};

class Chooser {
 public:
  Chooser(StepTrial& trial, int64_t budget_bytes)
      : trial_(trial),
        budget_bytes_(budget_bytes),
        kept_(trial.with_set({})),
        options_(recompute_options(trial, kept_)) {
    for (const LayerOptions& layer : options_.layers) alike_[layer.layer] = layer.alike;
  }

  RecomputeChoice choose() {
    if (is_within(trial_.with_set({}))) return result({});
    std::optional<std::set<std::string>> found = by_options();
    std::optional<std::set<std::string>> grouped = by_groups(found);
    if (grouped) found = std::move(grouped);
    if (!found) {
      throw user_error(
          "[--activation_budget] expected at least {}, got {}: no set of recomputed values needs less",
          format_bytes(least_bytes_), format_bytes(budget_bytes_));
    }
    do {
      keep_what_fits(*found);
    } while (exchange_in_layers(*found));
    return result(std::move(*found));
  }

 private:
  // Whether the step that was tried last is within the budget.
  bool is_within(const TrialOutcome& outcome, int64_t effort = kDefaultPackEffort) {
    least_bytes_ = std::min(least_bytes_, outcome.live_bytes);
    tried_bytes_ = outcome.live_bytes;
    if (tried_bytes_ > budget_bytes_) return false;
    tried_bytes_ = trial_.packed_bytes(budget_bytes_, effort);
    return tried_bytes_ <= budget_bytes_;
  }

  RecomputeChoice result(std::set<std::string> names) {
    const TrialOutcome outcome = trial_.with_set(names);
    return {std::move(names), outcome.live_bytes, budget_bytes_, outcome.seconds};
  }

  std::optional<std::set<std::string>> by_options() {
    int64_t needed_bytes = std::max<int64_t>(1, kept_.live_bytes - budget_bytes_);
    for (int i = 0; i < kMostCorrections; ++i) {
      std::optional<std::vector<size_t>> chosen = choose_options(options_.layers, needed_bytes);
      if (!chosen) break;
      sink(options_.layers, *chosen);
      std::set<std::string> names = names_of(options_.layers, *chosen);
      if (is_within(trial_.with_set(names))) return names;
      needed_bytes += tried_bytes_ - budget_bytes_;
    }
    return std::nullopt;
  }

  // The groups of layers that are within the budget and faster than `found`.
  std::optional<std::set<std::string>> by_groups(const std::optional<std::set<std::string>>& found) {
    double least_seconds = found ? trial_.recompute_seconds(*found) : std::numeric_limits<double>::infinity();
    int64_t live_before = std::numeric_limits<int64_t>::max();
    std::optional<std::set<std::string>> best;
    const int32_t last_layer = options_.layers.empty() ? -1 : options_.layers.back().layer;
    for (int32_t every = 1; every <= last_layer; ++every) {
      std::set<std::string> names = recompute_set_of_groups(trial_.step(), every);
      if (kept_.live_bytes - freed_bytes(names) > budget_bytes_) continue;
      const double seconds = trial_.recompute_seconds(names);
      if (seconds >= least_seconds) continue;
      const TrialOutcome outcome = trial_.with_set(names);
      if (!found && !best && outcome.live_bytes > live_before) break;  // longer groups hold more at once
      live_before = outcome.live_bytes;
      if (!is_within(outcome)) continue;
      least_seconds = seconds;
      best = std::move(names);
    }
    return best;
  }

  // What the step takes less where the names of `gone`, of one layer and of the set, are kept. A layer's values are made again
  // from the layer's own and its neighbours': what was found in one layer holds for those alike that have the same of the set in
  // themselves and their neighbours. Where the set has what layers start from, values are made again from farther away.
  double saved_seconds(const NamesByLayer& names, int32_t layer, const std::vector<std::string>& gone) {
    const auto find = [&] {
      std::set<std::string> fewer = names.all;
      for (const std::string& name : gone) fewer.erase(name);
      return names.seconds - trial_.recompute_seconds(fewer);
    };
    if (layer < 0 || names.has_bases) return find();
    SavedKey key;
    for (int32_t near = layer - 1; near <= layer + 1; ++near) {
      const auto alike = alike_.find(near);
      key.alike.push_back(alike == alike_.end() ? kNoLayer : alike->second);
      const auto of_layer = names.of_layer.find(near);
      key.names.push_back(of_layer == names.of_layer.end() ? std::vector<std::string>{}
                                                           : names_in_layer(of_layer->second));
    }
    key.gone = names_in_layer(gone);
    const auto [saved, is_new] = saved_seconds_.try_emplace(std::move(key), 0.0);
    if (is_new) saved->second = find();
    return saved->second;
  }

  NamesByLayer by_layer(const std::set<std::string>& names) const {
    NamesByLayer found{.all = names, .seconds = trial_.recompute_seconds(names)};
    for (const std::string& name : names) {
      found.of_layer[place_of(name).layer].push_back(name);
      found.has_bases = found.has_bases || options_.bases.contains(name);
    }
    return found;
  }

  // What a set frees at the position where the step without one has its peak.
  int64_t freed_bytes(const std::set<std::string>& names) const {
    int64_t freed = 0;
    for (const std::string& name : names) {
      const auto bytes = options_.kept_bytes.find(name);
      if (bytes != options_.kept_bytes.end() && kept_.across_peak.contains(name))
        freed += trial_.options().micro_batches_together() * bytes->second;
    }
    return freed;
  }

  // True if the step cannot hold what a name stands for: at some position where neither it nor what replaces it is alive
  // there is no room.
  bool has_no_room(const std::string& name, const TrialOutcome& outcome) const {
    const auto gap = outcome.gap_bytes.find(name);
    const auto bytes = options_.kept_bytes.find(name);
    return gap != outcome.gap_bytes.end() && bytes != options_.kept_bytes.end() &&
           !options_.bases.contains(name) && gap->second + bytes->second > budget_bytes_;
  }

  // Takes out of the set what the budget has room for, in the order of the seconds that a byte kept saves, most first. Where a
  // value cannot be kept, neither can that of a lower layer, which waits before and behind it too. Several are tried at once,
  // twice as many after each success: of some that have no room together the first that has none is found by halves.
  void keep_what_fits(std::set<std::string>& names) {
    TrialOutcome outcome = trial_.with_set(names);
    for (bool changes = true; changes;) {
      changes = false;
      std::map<std::string, int32_t, std::less<>> lost_from;  // by what it is called in its layer: the layer
      const auto is_lost = [&](const std::string& name) {
        const PlaceOfName place = place_of(name);
        const auto lost = lost_from.find(place.in_layer);
        const bool is_below = lost != lost_from.end() && place.layer < lost->second;
        return is_below || has_no_room(name, outcome);  // since others were kept
      };
      std::vector<std::string> open = most_seconds_first(names, outcome);
      size_t next = 1, too_many = 0;  // of `open`: how many are tried, and are known to have no room; 0: none
      while (true) {
        if (std::erase_if(open, is_lost) > 0) too_many = 0;
        if (open.empty()) break;
        if (too_many == 1) {
          const PlaceOfName place = place_of(open.front());
          lost_from.insert_or_assign(std::string(place.in_layer), place.layer);
          open.erase(open.begin());
          next = 1;
          too_many = 0;
          continue;
        }
        const size_t tried = std::min(too_many > 0 ? too_many / 2 : next, open.size());
        std::set<std::string> fewer = names;
        for (size_t i = 0; i < tried; ++i) fewer.erase(open[i]);
        TrialOutcome without = trial_.with_set(fewer);
        if (without.seconds > outcome.seconds || !is_within(without, kKeepEffort)) {
          too_many = tried;
          continue;
        }
        names = std::move(fewer);
        outcome = std::move(without);
        changes = true;
        open.erase(open.begin(), open.begin() + static_cast<ptrdiff_t>(tried));
        next = 2 * tried;
        too_many -= std::min(tried, too_many);
      }
    }
  }

  // Takes another option for single layers where that is faster and within the budget, from the highest layer down; true if it
  // does. What was of no use in one layer is of none in the lower ones that are alike.
  bool exchange_in_layers(std::set<std::string>& names) {
    using Exchange = std::tuple<size_t, std::vector<std::string>, std::vector<std::string>>;
    std::set<Exchange> useless;  // by kind of layer: what was recomputed in it, and what was tried instead
    TrialOutcome outcome = trial_.with_set(names);
    bool changes = false;
    NamesByLayer of_set = by_layer(names);
    for (auto layer = options_.layers.rbegin(); layer != options_.layers.rend(); ++layer) {
      const auto of_layer = of_set.of_layer.find(layer->layer);
      if (of_layer == of_set.of_layer.end()) continue;
      std::set<std::string> others = names;
      for (const std::string& name : of_layer->second) others.erase(name);
      const std::vector<std::string> own = names_in_layer(of_layer->second);
      const double own_seconds = saved_seconds(of_set, layer->layer, of_layer->second);
      for (const RecomputeOption& option : layer->options) {
        if (option.seconds >= own_seconds * (1 - kSameSeconds)) break;
        std::set<std::string> exchanged = others;
        exchanged.insert(option.names.begin(), option.names.end());
        if (kept_.live_bytes - freed_bytes(exchanged) > budget_bytes_) continue;
        const Exchange exchange(layer->alike, own, names_in_layer(option.names));
        if (useless.contains(exchange)) continue;
        if (exchange_nodes_ <= 0) return changes;
        exchange_nodes_ -= std::ssize(trial_.step().nodes());
        TrialOutcome trial = trial_.with_set(exchanged);
        if (trial.seconds >= outcome.seconds || !is_within(trial, kKeepEffort)) {
          useless.insert(exchange);
          continue;
        }
        names = std::move(exchanged);
        of_set = by_layer(names);
        outcome = std::move(trial);
        changes = true;
        break;
      }
    }
    return changes;
  }

  // Those of the names that there may be room for, by the seconds that a byte kept saves, most first; of equal ones the
  // highest layer.
  std::vector<std::string> most_seconds_first(const std::set<std::string>& names,
                                              const TrialOutcome& outcome) {
    const NamesByLayer of_set = by_layer(names);
    std::vector<std::pair<float, std::string>>
        saved;  // sums of the same seconds may differ in their last bits
    for (const std::string& name : names) {
      if (has_no_room(name, outcome)) continue;
      const auto bytes = options_.kept_bytes.find(name);
      if (bytes == options_.kept_bytes.end() || bytes->second == 0) continue;  // nothing is kept by it
      saved.emplace_back(static_cast<float>(saved_seconds(of_set, place_of(name).layer, {name}) /
                                            static_cast<double>(bytes->second)),
                         name);
    }
    std::stable_sort(saved.begin(), saved.end(), [](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first > b.first;
      return place_of(a.second).layer > place_of(b.second).layer;
    });
    std::vector<std::string> sorted;
    for (auto& [seconds, name] : saved) sorted.push_back(std::move(name));
    return sorted;
  }

  StepTrial& trial_;
  int64_t budget_bytes_;
  TrialOutcome kept_;
  RecomputeOptions options_;
  std::map<int32_t, size_t> alike_;  // by layer
  std::map<SavedKey, double> saved_seconds_;
  int64_t tried_bytes_ = 0;                      // of the step that was tried last
  int64_t exchange_nodes_ = kMostExchangeNodes;  // that are left
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

int64_t bytes_of_budget(StepTrial& trial, const ActivationBudget& budget) {
  if (budget.bytes > 0) return budget.bytes;
  const int64_t none = trial.with_set({}).live_bytes;
  const int64_t least = trial.with_groups(1).live_bytes;
  const int64_t every_layer = std::min(none, trial.packed_bytes(least));
  return every_layer + std::llround(budget.fraction * static_cast<double>(none - every_layer));
}

RecomputeChoice choose_recompute_set(StepTrial& trial, const ActivationBudget& budget) {
  if (budget.bytes == 0 && budget.fraction >= 1) {
    const TrialOutcome kept = trial.with_set({});
    return {{}, kept.live_bytes, kept.live_bytes, kept.seconds};
  }
  return Chooser(trial, bytes_of_budget(trial, budget)).choose();
}

}  // namespace shoehorn
