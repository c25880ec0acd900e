#include "lab/link_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/median.h"
#include "base/now_seconds.h"
#include "ranks/agreement.h"
#include "ranks/open_ranks.h"

namespace shoehorn {

namespace {

constexpr double kMostSpread = 0.5;

struct Numbers {
  int64_t processor_count = 1;
  double own = 0;
  double others = 0;
  int64_t involuntary_switches = 0;
};

// Of ranks that share processors: what processes used that are none of them. Each counted the others of them as well.
std::string disturbance_of(const std::vector<const RankLoad*>& sharing) {
  const RankLoad& first = *sharing[0];
  if (first.others < 0) return {};
  double others = first.others;
  for (size_t i = 1; i < sharing.size(); ++i) others -= sharing[i]->own;
  const std::string text = other_load_text(std::max(0.0, others), std::ssize(sharing), first.processor_count);
  return text.empty() ? text : fmt::format("{} of {}", text, first.host);
}

}  // namespace

std::string disturbance(const LinkLoad& load) {
  std::map<std::pair<std::string, std::string>, std::vector<const RankLoad*>> sharing;
  for (const RankLoad& rank : load.ranks) sharing[{rank.host, rank.processors}].push_back(&rank);
  for (const auto& [place, ranks] : sharing) {
    if (std::string text = disturbance_of(ranks); !text.empty()) return text;
  }
  if (load.spread <= kMostSpread) return {};
  return fmt::format("all-reduces of the same bytes differed by {:.0f} %", 100 * load.spread);
}

double relative_spread(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t quarter = seconds.size() / 4;
  return (seconds[seconds.size() - 1 - quarter] - seconds[quarter]) / median(seconds);
}

LinkWatch::LinkWatch() : used_before_(processor_use()), began_(now_seconds()) {}

std::vector<RankLoad> LinkWatch::loads(Communicator& ranks) const {
  const ProcessorUse used = processor_use();
  const double seconds = now_seconds() - began_;
  const Numbers own{.processor_count = processors().allowed,
                    .own = (used.cpu_seconds - used_before_.cpu_seconds) / seconds,
                    .others = others_.processors().value_or(-1),
                    .involuntary_switches = used.involuntary_switches - used_before_.involuntary_switches};
  const std::vector<Numbers> numbers = gather_values(ranks, own);
  const std::vector<std::string> hosts = gather_texts(ranks, host_name());
  const std::vector<std::string> lists = gather_texts(ranks, allowed_processor_list());
  std::vector<RankLoad> loads;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    loads.push_back({.host = hosts[rank],
                     .processors = lists[rank],
                     .processor_count = numbers[rank].processor_count,
                     .own = numbers[rank].own,
                     .others = numbers[rank].others,
                     .involuntary_switches = numbers[rank].involuntary_switches});
  }
  return loads;
}

}  // namespace shoehorn
