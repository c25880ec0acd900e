#include "analysis/rank_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "analysis/ranked_session_testing.h"
#include "base/error_testing.h"
#include "ops/ring.h"
#include "ranks/agreement.h"
#include "session/batch_feed.h"

namespace shoehorn {
namespace {

// Who sends how many bytes to whom.
using BytesOfPairs = std::vector<std::vector<double>>;

// The ranks of each group in the order of its ring, written down as passes/collective_nodes.h and ops/ring.h say it: those in a row, or those
// at one place of every row.
std::vector<std::vector<int64_t>> groups_of(const CollectiveAttributes& attributes) {
  const int64_t world = attributes.ranks * attributes.groups;
  std::vector<std::vector<int64_t>> groups;
  if (attributes.stride == 1) {
    for (int64_t first = 0; first < world; first += attributes.ranks) {
      std::vector<int64_t>& group = groups.emplace_back(static_cast<size_t>(attributes.ranks));
      std::iota(group.begin(), group.end(), first);
    }
    return groups;
  }
  for (int64_t place = 0; place < attributes.stride; ++place) {
    std::vector<int64_t>& group = groups.emplace_back();
    for (int64_t rank = place; rank < world; rank += attributes.stride) group.push_back(rank);
  }
  return groups;
}

// Calls function(sender, receiver) for all of a collective.
template <typename Function>
void for_each_sender(const Node& node, const Function& function) {
  for (std::vector<int64_t> group : groups_of(std::get<CollectiveAttributes>(node.attributes))) {
    if (node.kind == OpKind::kReduce) std::ranges::reverse(group);
    for (size_t i = 0; i + 1 < group.size(); ++i) function(group[i], group[i + 1]);
    if (!is_chain(node.kind)) function(group.back(), group.front());
  }
}

BytesOfPairs bytes_of_pairs(const Session& session) {
  const RankOptions& ranks = session.options().step.ranks;
  const auto world = static_cast<size_t>(ranks.world_size);
  BytesOfPairs bytes(world, std::vector<double>(world));
  for (const Program& program : session.family().programs) {
    for (const Node& node : program.nodes()) {
      if (!std::holds_alternative<CollectiveAttributes>(node.attributes)) continue;
      for_each_sender(node, [&](int64_t from, int64_t to) {
        bytes[static_cast<size_t>(from)][static_cast<size_t>(to)] +=
            session.calls_in_step(program) * static_cast<double>(sent_bytes({program, node}, from));
      });
    }
  }
  for (size_t rank = 0; rank < world; ++rank) {
    bytes[rank][(rank + 1) % world] +=
        session.stop_agreements_in_step() * static_cast<double>(world - 1) * kStopWordBytes;
    if (ranks.are_replicas() && rank > 0)
      bytes[0][rank] += static_cast<double>(scattered_bytes(session.family().train_batches[0]));
  }
  return bytes;
}

// Of each rank what goes to other hosts.
std::vector<double> bytes_between_hosts(const BytesOfPairs& pairs, size_t ranks_of_host) {
  std::vector<double> all;
  for (size_t from = 0; from < pairs.size(); ++from) {
    double& bytes = all.emplace_back();
    for (size_t to = 0; to < pairs.size(); ++to) {
      if (to / ranks_of_host != from / ranks_of_host) bytes += pairs[from][to];
    }
  }
  return all;
}

class RankTrafficTest : public test_support::RankedSession {
 protected:
  // The ways to share a step that differ in who sends to whom.
  std::vector<SessionOptions> ways(int64_t ranks) const {
    std::vector<SessionOptions> all = {options(ranks, 0), options(ranks, 2, 3), options(ranks, 3)};
    for (const int64_t group : {2, 3}) {
      if (ranks % group != 0 || ranks == group) continue;
      all.push_back(options(ranks, 1, 2));
      all.back().step.ranks.zero_group_size = group;
      all.push_back(options(ranks, 3));
      all.back().step.ranks.zero_group_size = group;
    }
    all.push_back(options(ranks, 0));
    all.back().step.ranks.local_sgd_steps = 4;
    all.push_back(options(ranks, 0));
    all.back().step.ranks.mode = ParallelMode::kReplicas;
    return all;
  }
};

// By counting who sends to whom: the rank that is named sends as told by link, and none sends more between hosts, but for the rounding of
// parts.
TEST_F(RankTrafficTest, BytesByLinkAreThoseThatRanksSendEachOther) {
  for (const int64_t ranks : {2, 4, 6}) {
    for (SessionOptions& way : ways(ranks)) {
      for (int64_t ranks_per_host = 1; ranks_per_host <= ranks; ++ranks_per_host) {
        way.step.ranks.ranks_per_host = ranks_per_host;
        SCOPED_TRACE(fmt::format("stage {}, {} ranks, groups of {}, {} a host", way.step.ranks.zero_stage,
                                 ranks, way.step.ranks.group_size(), ranks_per_host));
        const Session session(model_, way);
        const StepTraffic traffic = step_traffic(session);
        const std::vector<double> between =
            bytes_between_hosts(bytes_of_pairs(session), static_cast<size_t>(ranks_per_host));
        EXPECT_EQ(traffic.has_several_hosts, ranks_per_host < ranks);
        EXPECT_NEAR(traffic.between_hosts_bytes(), between[static_cast<size_t>(traffic.rank)], 1e-6);
        EXPECT_NEAR(traffic.within_host_bytes() + traffic.between_hosts_bytes(),
                    static_cast<double>(session.sent_bytes_in_step(traffic.rank)), 0.51);
        const double most = *std::ranges::max_element(between);
        EXPECT_GE(traffic.between_hosts_bytes(), 0.98 * most);
      }
    }
  }
}

// Groups that are hosts: between them go the groups' sums, 2 Ψ/G (1 - G/N) a rank of Ψ bytes of gradients, the loss, the norm and a word
// about stops; all else stays within hosts.
TEST_F(RankTrafficTest, BetweenGroupsThatAreHostsGoTheirSumsOnly) {
  constexpr int64_t kGroup = 2, kRanks = 6;
  SessionOptions hybrid = options(kRanks, 3);
  hybrid.step.ranks.zero_group_size = hybrid.step.ranks.ranks_per_host = kGroup;
  const Session session(model_, hybrid);
  const StepTraffic traffic = step_traffic(session);
  const double gradients = 4 * static_cast<double>(session.trainable_parameter_count());
  const double sums = 2 * gradients / kGroup * (1 - static_cast<double>(kGroup) / kRanks);
  auto kinds = kinds_of(traffic);
  EXPECT_NEAR(kinds["all_reduce_across_groups"].between_hosts_bytes, sums, 0.01 * sums);
  constexpr double kFewNumbers = 200;
  EXPECT_LT(traffic.between_hosts_bytes() - kinds["all_reduce_across_groups"].between_hosts_bytes,
            kFewNumbers);
  EXPECT_EQ(kinds["all_gather"].between_hosts_bytes, 0);
  EXPECT_GT(kinds["all_gather"].within_host_bytes, 0);
  EXPECT_EQ(kinds["reduce_scatter"].between_hosts_bytes, 0);
  EXPECT_EQ(kinds["all_reduce_across_groups"].within_host_bytes, 0);
  EXPECT_EQ(traffic.rank, kGroup - 1) << "the last of its host sends the loss on, too";
}

// On the host where most do, of every way to cut ranks into hosts and groups.
TEST_F(RankTrafficTest, SendersOfAHostAreCounted) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce}) {
    for (int64_t world = 1; world <= 12; ++world) {
      for (int64_t ranks_of_host = 1; ranks_of_host <= world; ++ranks_of_host) {
        for (int64_t ring = 1; ring <= world; ++ring) {
          if (world % ring != 0) continue;
          for (const int64_t stride : {int64_t{1}, world / ring}) {
            Node node;
            node.kind = kind;
            node.attributes =
                CollectiveAttributes{.ranks = ring, .segments = {}, .stride = stride, .groups = world / ring};
            std::vector<int64_t> senders(static_cast<size_t>(world));
            for_each_sender(node, [&](int64_t from, int64_t to) {
              const int64_t host = from / ranks_of_host;
              if (host != to / ranks_of_host) ++senders[static_cast<size_t>(host)];
            });
            EXPECT_EQ(HostSenders(ranks_of_host).of(node), *std::ranges::max_element(senders))
                << world << " ranks, " << ranks_of_host << " a host, rings of " << ring << " by " << stride;
          }
        }
      }
    }
  }
}

TEST_F(RankTrafficTest, LinksAreToldOfSeveralHosts) {
  SessionOptions on_hosts = options(4, 0);
  const StepTraffic alone = step_traffic(Session(model_, on_hosts));
  EXPECT_EQ(format_traffic(alone).find("between hosts"), std::string::npos);
  EXPECT_TRUE(contains(link_bytes_text(alone), " by a rank, within its host"));
  on_hosts.step.ranks.ranks_per_host = 2;
  const StepTraffic traffic = step_traffic(Session(model_, on_hosts));
  EXPECT_TRUE(
      contains(format_traffic(traffic), "by link, of rank 1: none sends more between hosts of 2 ranks"));
  EXPECT_TRUE(contains(link_bytes_text(traffic), "0 B within its host and "));
  const nlohmann::json json = link_bytes_to_json(traffic);
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["ranks_per_host"], 2);
  EXPECT_EQ(json["within_host_bytes"], 0);
  EXPECT_EQ(json["between_hosts_bytes"], traffic.between_hosts_bytes());
  EXPECT_EQ(to_json(traffic.kinds)["all_reduce"]["between_hosts_bytes"],
            kinds_of(traffic)["all_reduce"].between_hosts_bytes);
}

}  // namespace
}  // namespace shoehorn
