// How long the messages of a planned run take over a link, and how much of that the computation hides.
//
// A message of b bytes takes latency + b / bandwidth (Hockney, "The communication challenge for MPP", 1994). A collective
// is a ring of them, one after the other (ops/ring.h). A step is run on paper as the executor runs it: lane 0 computes, a
// collective of another lane begins when lane 0 has finished what stands before it and the collective before it is done,
// and who reads what it makes waits. The lanes are taken not to slow each other, though they share a host's memory, and
// where ranks have all of its processors these, too.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ops/op_info.h"
#include "session/session.h"

namespace shoehorn {

// From a rank to the next of the ring, while all of them send.
struct RankLink {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  std::string source = {};  // "measured between 2 ranks on host-a", "--link_bandwidth"
};

// Whether so many Gbit/s are a link's: more than 0, and in bytes a number still.
bool is_link_bandwidth(double gbit_per_second);
// Of a link as people name it. `source` as above.
RankLink link_of(double gbit_per_second, double latency_microseconds, std::string source = {});
double gbit_per_second(const RankLink& link);
double latency_microseconds(const RankLink& link);

// The messages of one kind in a step: what the first rank sends, or of sums that end there the second. Of rings another's
// bytes differ by a rounding.
struct RankTraffic {
  // A collective's op, with "_across_groups" between ranks of several groups that share (--zero_group_size); or "agree_on_stop", the
  // words in front of a step (ranks/agreement.h).
  std::string name;
  double runs = 0;
  double messages = 0;  // one after the other
  double bytes = 0;
};

// Of a step, kind by kind; none where there is one rank.
std::vector<RankTraffic> step_traffic(const Session& session);

// What the messages of a step take over the link, one after the other.
double message_seconds_in_step(const Session& session, const RankLink& link);

struct MessageTime {
  RankLink link = {};
  double seconds = 0;            // of all messages, as if they had the step for themselves
  double computing_seconds = 0;  // of all else
  double step_seconds = 0;       // both, beside each other as planned

  double unhidden_step_seconds() const { return computing_seconds + seconds; }
  // The share of the messages' seconds that the computation hides.
  double hidden_share() const { return seconds > 0 ? (unhidden_step_seconds() - step_seconds) / seconds : 0; }
};

// The seconds of a node that sends nothing.
using NodeSeconds = std::function<double(const OpContext& node)>;

// Adds `runs` of a program to `time`, whose link is set.
void add_messages(const Program& program, double runs, const NodeSeconds& node_seconds, MessageTime& time);
// Adds what ranks tell each other in front of a step of the session, beside which nothing computes.
void add_agreements(const Session& session, MessageTime& time);

bool sends_messages(const Node& node);
// By a rank that sends as much as any: the first, but for what ends there.
double most_sent_bytes(const OpContext& context);
// The node that makes what an input lies in, views aside; an invalid id for state.
NodeId maker_of(const Program& program, ValueId input);

// "1.2 s of messages, 80 % of it beside the computation; 3.4 s without that"
std::string format_message_time(const MessageTime& time);
// A line a kind: "  all_reduce  12 runs  72 messages  1.5 MiB"; nothing where there is none.
std::string format_traffic(const std::vector<RankTraffic>& traffic);
// {"link": {"latency_seconds", "bytes_per_second", "source"}, "seconds", "computing_seconds", "hidden_share",
// "step_seconds_without_overlap"}
nlohmann::json to_json(const MessageTime& time);
// {"all_reduce": {"runs", "messages", "bytes"}, "all_reduce_across_groups": …, …}
nlohmann::json to_json(const std::vector<RankTraffic>& traffic);

}  // namespace shoehorn
