// How long the messages of a planned run take over a link, and how much of that the computation hides.
//
// A message of b bytes takes latency + b / bandwidth (Hockney, "The communication challenge for MPP", 1994). A collective
// is a ring of them, one after the other (ops/ring.h); one that leaves a host takes as long as its messages between hosts. A
// step is run on paper as the executor runs it: lane 0 computes, a collective of another lane begins when lane 0 has
// finished what stands before it and the collective before it is done, and who reads what it makes waits. Where ranks have all
// processors of their host, what copies and adds messages takes its time from lane 0, unless that waits. The lanes are taken not
// to slow each other otherwise, though they share a host's memory.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "analysis/rank_traffic.h"
#include "ops/op_info.h"
#include "session/session.h"

namespace shoehorn {

// From a host to another. The ranks that send over it at the same time share it.
struct HostLink {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  std::string source = {};
};

// From a rank to the next of the ring, while all of them send.
struct RankLink {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  std::string source = {};  // "measured between 2 ranks on host-a", "--link_bandwidth"
  // Of ranks on several hosts; the above is then within a host. None: all messages go over the above.
  std::optional<HostLink> between_hosts = {};
  bool is_of_one_host = false;  // measured there, so that all that a message takes is copies and sums
  // What sending a byte takes from the computation; 0 where ranks leave a processor to their messages, or nobody knows.
  double processor_seconds_per_byte = 0;
};

// Whether so many Gbit/s are a link's: more than 0, and in bytes a number still.
bool is_link_bandwidth(double gbit_per_second);
// Of a link as people name it. `source` as above.
RankLink link_of(double gbit_per_second, double latency_microseconds, std::string source = {});
double gbit_per_second(const RankLink& link);
double latency_microseconds(const RankLink& link);

// What the messages of a step take over the link, one after the other.
double message_seconds_in_step(const Session& session, const RankLink& link);

struct MessageTime {
  RankLink link = {};
  int64_t ranks_of_host = 0;     // 0: one host has all
  double seconds = 0;            // of all messages, as if they had the step for themselves
  double computing_seconds = 0;  // of all else
  double step_seconds = 0;       // both, beside each other as planned

  double unhidden_step_seconds() const { return computing_seconds + seconds; }
  // The share of the messages' seconds that the computation hides.
  double hidden_share() const { return seconds > 0 ? (unhidden_step_seconds() - step_seconds) / seconds : 0; }
};

// The seconds of a node that sends nothing.
using NodeSeconds = std::function<double(const OpContext& node)>;

// Adds `runs` of a program to `time`, whose link and ranks_of_host are set.
void add_messages(const Program& program, double runs, const NodeSeconds& node_seconds, MessageTime& time);
// Adds what ranks send each other in front of a step of the session, beside which nothing computes.
void add_messages_in_front(const Session& session, MessageTime& time);

bool sends_messages(const Node& node);
// The node that makes what an input lies in, views aside; an invalid id for state.
NodeId maker_of(const Program& program, ValueId input);

// "1.2 s of messages, 80 % of it beside the computation; 3.4 s without that"
std::string format_message_time(const MessageTime& time);
// {"link": {"latency_seconds", "bytes_per_second", "source", "processor_seconds_per_byte", of several hosts "between_hosts"},
// "seconds", "computing_seconds", "hidden_share", "step_seconds_without_overlap"}
nlohmann::json to_json(const MessageTime& time);

}  // namespace shoehorn
