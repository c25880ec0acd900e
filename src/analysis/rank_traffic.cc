#include "analysis/rank_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "base/plural.h"
#include "base/rounding.h"
#include "ops/ring.h"
#include "ranks/agreement.h"
#include "session/batch_feed.h"

namespace shoehorn {

namespace {

// Collectives with the same senders and receivers.
using Way = std::tuple<OpKind, int64_t, int64_t>;

const CollectiveAttributes& attributes_of(const Node& collective) {
  return std::get<CollectiveAttributes>(collective.attributes);
}

Way way_of(const Node& collective) {
  const CollectiveAttributes& attributes = attributes_of(collective);
  return {collective.kind, attributes.ranks, attributes.stride};
}

bool sends_to_another_host(const Node& collective, int64_t rank, int64_t ranks_of_host) {
  const std::optional<int64_t> receiver = receiver_of(collective.kind, attributes_of(collective), rank);
  return receiver && *receiver / ranks_of_host != rank / ranks_of_host;
}

void add_bytes(RankTraffic& traffic, double bytes, bool is_between_hosts) {
  (is_between_hosts ? traffic.between_hosts_bytes : traffic.within_host_bytes) += bytes;
}

// Bytes of one rank of a ring, which are those of another but for a rounding.
struct WayBytes {
  const Node* collective = nullptr;  // one of them
  double bytes = 0;
};

int64_t rank_that_sends_most_between_hosts(const Session& session) {
  const RankOptions& ranks = session.options().step.ranks;
  if (!ranks.are_on_several_hosts()) return 0;
  std::map<Way, WayBytes> ways;
  for_each_collective(session, [&](const Program& program, const Node& node, double runs) {
    WayBytes& way = ways[way_of(node)];
    way.collective = &node;
    way.bytes += runs * most_sent_bytes({program, node});
  });
  int64_t busiest = 0;
  double most = -1;
  for (int64_t rank = 0; rank < ranks.world_size; ++rank) {
    double bytes =
        stop_words(session, rank).between_hosts_bytes + scattered_samples(session, rank).between_hosts_bytes;
    for (const auto& [way, sent] : ways) {
      if (sends_to_another_host(*sent.collective, rank, ranks.ranks_of_host())) bytes += sent.bytes;
    }
    if (bytes > most) {
      most = bytes;
      busiest = rank;
    }
  }
  return busiest;
}

double sum_of(const std::vector<RankTraffic>& kinds, double RankTraffic::* bytes) {
  double sum = 0;
  for (const RankTraffic& kind : kinds) sum += kind.*bytes;
  return sum;
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

}  // namespace

double StepTraffic::within_host_bytes() const {
  return sum_of(kinds, &RankTraffic::within_host_bytes);
}

double StepTraffic::between_hosts_bytes() const {
  return sum_of(kinds, &RankTraffic::between_hosts_bytes);
}

// Those without a byte in a short tensor's ring are counted, too. In a chain pieces follow each other: those of one tensor, and
// the ranks that the last of them has still to pass.
double messages_of(const Node& collective) {
  const CollectiveAttributes& attributes = attributes_of(collective);
  if (is_chain(collective.kind)) {
    int64_t pieces = 0;
    for (const std::vector<RingSegment>& segments : attributes.segments)
      pieces += ceil_divide(stored_elements(segments), attributes.chunk_elements);
    return static_cast<double>(pieces + attributes.ranks - 2);
  }
  const double halves = collective.kind == OpKind::kAllReduce ? 2 : 1;
  return halves * static_cast<double>(attributes.ranks - 1) *
         static_cast<double>(ring_of(attributes).blocks());
}

double most_sent_bytes(const OpContext& collective) {
  return static_cast<double>(sent_bytes(collective, collective.node.kind == OpKind::kReduce ? 1 : 0));
}

int64_t HostSenders::of(const Node& collective) {
  const CollectiveAttributes& attributes = attributes_of(collective);
  const int64_t ranks = attributes.ranks * attributes.groups;
  if (ranks_of_host_ == 0 || ranks_of_host_ >= ranks) return 0;
  const auto [known, is_new] = known_.try_emplace(way_of(collective), 0);
  if (!is_new) return known->second;
  int64_t on_host = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (rank % ranks_of_host_ == 0) on_host = 0;
    if (sends_to_another_host(collective, rank, ranks_of_host_)) ++on_host;
    known->second = std::max(known->second, on_host);
  }
  return known->second;
}

RankTraffic stop_words(const Session& session, int64_t rank) {
  const RankOptions& ranks = session.options().step.ranks;
  const double runs = session.stop_agreements_in_step();
  const double messages = runs * static_cast<double>(ranks.world_size - 1);
  RankTraffic words{.name = "agree_on_stop",
                    .runs = runs,
                    .messages = messages,
                    .bytes = messages * static_cast<double>(kStopWordBytes)};
  const int64_t next = (rank + 1) % ranks.world_size;
  add_bytes(words, words.bytes, next / ranks.ranks_of_host() != rank / ranks.ranks_of_host());
  return words;
}

RankTraffic scattered_samples(const Session& session, int64_t rank) {
  const RankOptions& ranks = session.options().step.ranks;
  if (!ranks.are_replicas() || session.family().train_batches.empty()) return {};
  const auto to_each = static_cast<double>(scattered_bytes(session.family().train_batches[0]));
  RankTraffic samples{.name = "scatter_samples",
                      .runs = 1,
                      .messages = static_cast<double>(ranks.world_size - 1),
                      .bytes = static_cast<double>(ranks.world_size - 1) * to_each};
  if (rank > 0) return samples;
  add_bytes(samples, static_cast<double>(ranks.ranks_of_host() - 1) * to_each, false);
  add_bytes(samples, static_cast<double>(ranks.world_size - ranks.ranks_of_host()) * to_each, true);
  return samples;
}

StepTraffic step_traffic(const Session& session) {
  const RankOptions& ranks = session.options().step.ranks;
  StepTraffic traffic{.ranks_of_host = ranks.ranks_of_host(),
                      .has_several_hosts = ranks.are_on_several_hosts(),
                      .rank = rank_that_sends_most_between_hosts(session)};
  std::map<std::pair<OpKind, bool>, RankTraffic> kinds;
  for_each_collective(session, [&](const Program& program, const Node& node, double runs) {
    const bool goes_across = attributes_of(node).stride > 1;
    RankTraffic& kind = kinds[{node.kind, goes_across}];
    kind.name = fmt::format("{}{}", op_info(node.kind).name, goes_across ? "_across_groups" : "");
    kind.runs += runs;
    kind.messages += runs * messages_of(node);
    kind.bytes += runs * most_sent_bytes({program, node});
    add_bytes(kind, runs * static_cast<double>(sent_bytes({program, node}, traffic.rank)),
              sends_to_another_host(node, traffic.rank, traffic.ranks_of_host));
  });
  for (const auto& [key, kind] : kinds) traffic.kinds.push_back(kind);
  for (const RankTraffic& in_front :
       {scattered_samples(session, traffic.rank), stop_words(session, traffic.rank)}) {
    if (in_front.runs > 0) traffic.kinds.push_back(in_front);
  }
  return traffic;
}

std::string format_traffic(const StepTraffic& traffic) {
  std::string text;
  for (const RankTraffic& kind : traffic.kinds) {
    text += fmt::format("    {:<28}{:>14}   {:.0f} x, {:.0f} messages in all\n", kind.name,
                        bytes_text(kind.bytes), kind.runs, kind.messages);
  }
  if (!traffic.has_several_hosts) return text;
  text +=
      fmt::format("  by link, of rank {}: none sends more between hosts of {}\n    {:<28}{:>14}{:>16}\n",
                  traffic.rank, plural(traffic.ranks_of_host, "rank"), "", "within host", "between hosts");
  const auto add = [&](const std::string& name, double within, double between) {
    text += fmt::format("    {:<28}{:>14}{:>16}\n", name, bytes_text(within), bytes_text(between));
  };
  for (const RankTraffic& kind : traffic.kinds)
    add(kind.name, kind.within_host_bytes, kind.between_hosts_bytes);
  add("all", traffic.within_host_bytes(), traffic.between_hosts_bytes());
  return text;
}

std::string link_bytes_text(const StepTraffic& traffic) {
  if (!traffic.has_several_hosts)
    return fmt::format("{} by a rank, within its host", bytes_text(traffic.within_host_bytes()));
  return fmt::format("{} within its host and {} between hosts by rank {}, than which none sends more there",
                     bytes_text(traffic.within_host_bytes()), bytes_text(traffic.between_hosts_bytes()),
                     traffic.rank);
}

nlohmann::json to_json(const std::vector<RankTraffic>& kinds) {
  nlohmann::json json = nlohmann::json::object();
  for (const RankTraffic& kind : kinds) {
    json[kind.name] = {{"runs", kind.runs},
                       {"messages", kind.messages},
                       {"bytes", kind.bytes},
                       {"within_host_bytes", kind.within_host_bytes},
                       {"between_hosts_bytes", kind.between_hosts_bytes}};
  }
  return json;
}

nlohmann::json link_bytes_to_json(const StepTraffic& traffic) {
  return {{"rank", traffic.rank},
          {"ranks_per_host", traffic.ranks_of_host},
          {"within_host_bytes", traffic.within_host_bytes()},
          {"between_hosts_bytes", traffic.between_hosts_bytes()}};
}

}  // namespace shoehorn
