#include "train/rank_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shoehorn {

namespace {

constexpr double kLeastShare = 0.05;

}  // namespace

Straggler straggler_of(const std::vector<double>& waited_seconds) {
  const auto [least, most] = std::ranges::minmax_element(waited_seconds);
  return {static_cast<int32_t>(least - waited_seconds.begin()), *most - *least};
}

MessageOverlap overlap_of_slowest(const std::vector<MessageOverlap>& ranks) {
  return *std::ranges::max_element(ranks, {}, [](const MessageOverlap& rank) {
    return std::pair(rank.hidden_share(), rank.done_share());
  });
}

std::string format_straggler(const Communicator& ranks, const Straggler& straggler, double run_seconds) {
  if (straggler.seconds <= kLeastShare * run_seconds) return {};
  return fmt::format(
      "{} is the slowest: another rank waited {:.1f} s longer for messages ({:.0f}% of the time)",
      ranks.name_of(straggler.rank), straggler.seconds, 100 * straggler.seconds / run_seconds);
}

}  // namespace shoehorn
