// What the ranks of a run send each other in a step, method by method, and over which links: within a host, or between hosts.
//
// Ranks stand on their hosts in a row (RankOptions::ranks_per_host). A ring around all ranks leaves each host once, by the last of
// its ranks; one that joins a place of every group (--zero_group_size) by each of them. So ranks of a host send unlike bytes
// between hosts, and those by link are of the rank that sends most there.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "ops/op_info.h"
#include "session/session.h"

namespace shoehorn {

// The messages of one kind in a step.
struct RankTraffic {
  // A collective's op, with "_across_groups" between ranks of several groups that share (--zero_group_size); "scatter_samples", which
  // DataParallel's first rank sends; or "agree_on_stop", the words in front of a step (ranks/agreement.h).
  std::string name = {};
  double runs = 0;
  double messages = 0;  // one after the other
  // What the first rank sends, or of sums that end there the second. Of rings another's bytes differ by a rounding.
  double bytes = 0;
  // What the rank sends that StepTraffic names.
  double within_host_bytes = 0;
  double between_hosts_bytes = 0;
};

struct StepTraffic {
  std::vector<RankTraffic> kinds = {};  // none where there is one rank
  int64_t ranks_of_host = 1;
  bool has_several_hosts = false;
  // The first of the ranks that send most between hosts, up to a rounding; where one host has all, the first of all.
  int64_t rank = 0;

  double within_host_bytes() const;
  double between_hosts_bytes() const;
};

// Of a step, of local SGD on average.
StepTraffic step_traffic(const Session& session);

// Calls function(program, node, how often it runs in a step) for each collective of a step.
template <typename Function>
void for_each_collective(const Session& session, const Function& function) {
  for (const Program& program : session.family().programs) {
    const double runs = session.calls_in_step(program);
    if (runs == 0) continue;
    for (const Node& node : program.nodes()) {
      if (std::holds_alternative<CollectiveAttributes>(node.attributes)) function(program, node, runs);
    }
  }
}

// How many ranks of a host send to other hosts in a collective, which is at the same time: on the host where most do. 0: its
// messages stay within hosts.
class HostSenders {
 public:
  // 0: one host has all.
  explicit HostSenders(int64_t ranks_of_host) : ranks_of_host_(ranks_of_host) {}
  int64_t of(const Node& collective);

 private:
  int64_t ranks_of_host_;
  std::map<std::tuple<OpKind, int64_t, int64_t>, int64_t>
      known_;  // by the kind, the ranks and the stride of a group
};

// What ranks send in front of a step, by link as `rank` does: the words about stops, in a ring of all; and the samples that the first
// rank of DataParallel sends to each other one. Nothing (no bytes) where there is none of it.
RankTraffic stop_words(const Session& session, int64_t rank);
RankTraffic scattered_samples(const Session& session, int64_t rank);

// As many as a rank waits for in a collective, one after the other.
double messages_of(const Node& collective);
// By a rank that sends as much as any: the first, but for what ends there.
double most_sent_bytes(const OpContext& collective);

// A line a kind: "  all_reduce  1.5 MiB  12 x, 72 messages in all"; of several hosts also what goes within and between them. Nothing
// of one rank.
std::string format_traffic(const StepTraffic& traffic);
// "1.5 MiB by a rank, within its host", "1.2 MiB within its host and 0.3 MiB between hosts by rank 3, …"
std::string link_bytes_text(const StepTraffic& traffic);
// {"all_reduce": {"runs", "messages", "bytes", "within_host_bytes", "between_hosts_bytes"}, "all_reduce_across_groups": …, …}
nlohmann::json to_json(const std::vector<RankTraffic>& kinds);
// {"rank", "ranks_per_host", "within_host_bytes", "between_hosts_bytes"}: over all kinds, and whose bytes by link they are.
nlohmann::json link_bytes_to_json(const StepTraffic& traffic);

}  // namespace shoehorn
