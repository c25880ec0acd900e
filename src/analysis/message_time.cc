#include "analysis/message_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace shoehorn {

namespace {

constexpr double kBytesOfGigabit = 1e9 / 8;
constexpr double kMicrosecondsOfSecond = 1e6;

// Of a RankLink or a HostLink.
template <typename Link>
double seconds_over(const Link& link, double messages, double bytes) {
  return messages * link.latency_seconds + bytes / link.bytes_per_second;
}

// A ring is as slow as its slowest messages: those between hosts, where it has any.
double message_seconds(const OpContext& context, const RankLink& link, HostSenders& senders) {
  const double messages = messages_of(context.node), bytes = most_sent_bytes(context);
  const int64_t sharing = link.between_hosts ? senders.of(context.node) : 0;
  if (sharing == 0) return seconds_over(link, messages, bytes);
  return seconds_over(*link.between_hosts, messages, static_cast<double>(sharing) * bytes);
}

// Of messages that a rank sends to several, each over its link.
double sending_seconds(const RankTraffic& traffic, const RankLink& link) {
  if (traffic.bytes <= 0) return 0;
  const double between = link.between_hosts ? traffic.between_hosts_bytes / traffic.bytes : 0;
  double seconds = seconds_over(link, (1 - between) * traffic.messages, (1 - between) * traffic.bytes);
  if (between > 0)
    seconds += seconds_over(*link.between_hosts, between * traffic.messages, traffic.between_hosts_bytes);
  return seconds;
}

template <typename Link>
nlohmann::json link_to_json(const Link& link) {
  return {{"latency_seconds", link.latency_seconds},
          {"bytes_per_second", link.bytes_per_second},
          {"source", link.source}};
}

// The last rank of the first host sends to the next one, if there is one, and all wait for it.
double seconds_in_front(const Session& session, const RankLink& link) {
  const int64_t last_of_host = session.options().step.ranks.ranks_of_host() - 1;
  return sending_seconds(scattered_samples(session, 0), link) +
         sending_seconds(stop_words(session, last_of_host), link);
}

}  // namespace

bool is_link_bandwidth(double gbit_per_second) {
  return gbit_per_second > 0 && std::isfinite(gbit_per_second * kBytesOfGigabit);
}

RankLink link_of(double gbit_per_second, double latency_microseconds, std::string source) {
  return {.latency_seconds = latency_microseconds / kMicrosecondsOfSecond,
          .bytes_per_second = gbit_per_second * kBytesOfGigabit,
          .source = std::move(source)};
}

double gbit_per_second(const RankLink& link) {
  return link.bytes_per_second / kBytesOfGigabit;
}

double latency_microseconds(const RankLink& link) {
  return link.latency_seconds * kMicrosecondsOfSecond;
}

bool sends_messages(const Node& node) {
  return std::holds_alternative<CollectiveAttributes>(node.attributes);
}

NodeId maker_of(const Program& program, ValueId input) {
  NodeId maker = input.valid() ? program.value(input).producer : NodeId{};
  while (maker.valid() && program.node(maker).kind == OpKind::kView)
    maker = program.value(program.node(maker).inputs[0]).producer;
  return maker;
}

double message_seconds_in_step(const Session& session, const RankLink& link) {
  double seconds = seconds_in_front(session, link);
  HostSenders senders(session.options().step.ranks.ranks_of_host());
  for_each_collective(session, [&](const Program& program, const Node& node, double runs) {
    seconds += runs * message_seconds({program, node}, link, senders);
  });
  return seconds;
}

void add_messages(const Program& program, double runs, const NodeSeconds& node_seconds, MessageTime& time) {
  HostSenders senders(time.ranks_of_host);
  // When each node is done, and each lane.
  std::vector<double> done(program.nodes().size(), 0);
  double computed = 0, sent = 0;
  double owed = 0;  // of the processor's time for messages that are on their way
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == OpKind::kView) continue;
    double begin = computed;
    for (const ValueId input : node.inputs) {
      if (const NodeId maker = maker_of(program, input); maker.valid())
        begin = std::max(begin, done[maker.at()]);
    }
    if (sends_messages(node)) {
      const OpContext context{program, node};
      const double seconds = message_seconds(context, time.link, senders);
      begin = std::max(begin, sent);  // one at a time
      sent = done[i] = begin + seconds;
      if (node.lane == 0)
        computed = done[i];
      else
        owed += std::min(seconds, most_sent_bytes(context) * time.link.processor_seconds_per_byte);
      time.seconds += runs * seconds;
    } else {
      const double seconds = node_seconds({program, node});
      const double waited = begin - computed;
      computed = done[i] = begin + std::max(0.0, owed - waited) + seconds;
      owed = 0;
      time.computing_seconds += runs * seconds;
    }
  }
  time.step_seconds += runs * std::max(computed, sent);
}

void add_messages_in_front(const Session& session, MessageTime& time) {
  const double seconds = seconds_in_front(session, time.link);
  time.seconds += seconds;
  time.step_seconds += seconds;
}

std::string format_message_time(const MessageTime& time) {
  return fmt::format("{:.3f} s of messages, {:.0f} % of it beside the computation; {:.3f} s without that",
                     time.seconds, 100 * time.hidden_share(), time.unhidden_step_seconds());
}

nlohmann::json to_json(const MessageTime& time) {
  nlohmann::json link = link_to_json(time.link);
  link["processor_seconds_per_byte"] = time.link.processor_seconds_per_byte;
  if (time.link.between_hosts) link["between_hosts"] = link_to_json(*time.link.between_hosts);
  return {{"link", std::move(link)},
          {"seconds", time.seconds},
          {"computing_seconds", time.computing_seconds},
          {"hidden_share", time.hidden_share()},
          {"step_seconds_without_overlap", time.unhidden_step_seconds()}};
}

}  // namespace shoehorn
