#include "analysis/message_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "base/rounding.h"
#include "ops/ring.h"
#include "ranks/agreement.h"

namespace shoehorn {

namespace {

constexpr double kBytesOfGigabit = 1e9 / 8;
constexpr double kMicrosecondsOfSecond = 1e6;

// As many as a rank waits for, one after the other; those without a byte in a short tensor's ring are counted, too. In a chain
// pieces follow each other: those of one tensor, and the ranks that the last of them has still to pass.
double messages_of(const Node& node) {
  const auto& attributes = std::get<CollectiveAttributes>(node.attributes);
  if (is_chain(node.kind)) {
    int64_t pieces = 0;
    for (const std::vector<RingSegment>& segments : attributes.segments)
      pieces += ceil_divide(stored_elements(segments), attributes.chunk_elements);
    return static_cast<double>(pieces + attributes.ranks - 2);
  }
  const double halves = node.kind == OpKind::kAllReduce ? 2 : 1;
  return halves * static_cast<double>(attributes.ranks - 1) *
         static_cast<double>(ring_of(attributes).blocks());
}

double message_seconds(const OpContext& context, const RankLink& link) {
  return messages_of(context.node) * link.latency_seconds + most_sent_bytes(context) / link.bytes_per_second;
}

RankTraffic agreements_of(const Session& session) {
  const double runs = session.stop_agreements_in_step();
  const double messages = runs * static_cast<double>(session.options().step.ranks.world_size - 1);
  return {.name = "agree_on_stop",
          .runs = runs,
          .messages = messages,
          .bytes = messages * static_cast<double>(kStopWordBytes)};
}

double seconds_of(const RankTraffic& traffic, const RankLink& link) {
  return traffic.messages * link.latency_seconds + traffic.bytes / link.bytes_per_second;
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

double most_sent_bytes(const OpContext& context) {
  return static_cast<double>(sent_bytes(context, context.node.kind == OpKind::kReduce ? 1 : 0));
}

NodeId maker_of(const Program& program, ValueId input) {
  NodeId maker = input.valid() ? program.value(input).producer : NodeId{};
  while (maker.valid() && program.node(maker).kind == OpKind::kView)
    maker = program.value(program.node(maker).inputs[0]).producer;
  return maker;
}

std::vector<RankTraffic> step_traffic(const Session& session) {
  std::map<std::pair<OpKind, bool>, RankTraffic> kinds;
  for (const Program& program : session.family().programs) {
    const double runs = session.calls_in_step(program);
    if (runs == 0) continue;
    for (const Node& node : program.nodes()) {
      if (!sends_messages(node)) continue;
      const bool goes_across = std::get<CollectiveAttributes>(node.attributes).stride > 1;
      RankTraffic& traffic = kinds[{node.kind, goes_across}];
      traffic.name = fmt::format("{}{}", op_info(node.kind).name, goes_across ? "_across_groups" : "");
      traffic.runs += runs;
      traffic.messages += runs * messages_of(node);
      traffic.bytes += runs * most_sent_bytes({program, node});
    }
  }
  std::vector<RankTraffic> all;
  for (const auto& [kind, traffic] : kinds) all.push_back(traffic);
  if (session.stop_agreements_in_step() > 0) all.push_back(agreements_of(session));
  return all;
}

double message_seconds_in_step(const Session& session, const RankLink& link) {
  double seconds = 0;
  for (const RankTraffic& traffic : step_traffic(session)) seconds += seconds_of(traffic, link);
  return seconds;
}

void add_messages(const Program& program, double runs, const NodeSeconds& node_seconds, MessageTime& time) {
  // When each node is done, and each lane.
  std::vector<double> done(program.nodes().size(), 0);
  double computed = 0, sent = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == OpKind::kView) continue;
    double begin = computed;
    for (const ValueId input : node.inputs) {
      if (const NodeId maker = maker_of(program, input); maker.valid())
        begin = std::max(begin, done[maker.at()]);
    }
    if (sends_messages(node)) {
      const double seconds = message_seconds({program, node}, time.link);
      begin = std::max(begin, sent);  // one at a time
      sent = done[i] = begin + seconds;
      if (node.lane == 0) computed = done[i];
      time.seconds += runs * seconds;
    } else {
      const double seconds = node_seconds({program, node});
      computed = done[i] = begin + seconds;
      time.computing_seconds += runs * seconds;
    }
  }
  time.step_seconds += runs * std::max(computed, sent);
}

void add_agreements(const Session& session, MessageTime& time) {
  const double seconds = seconds_of(agreements_of(session), time.link);
  time.seconds += seconds;
  time.step_seconds += seconds;
}

std::string format_message_time(const MessageTime& time) {
  return fmt::format("{:.3f} s of messages, {:.0f} % of it beside the computation; {:.3f} s without that",
                     time.seconds, 100 * time.hidden_share(), time.unhidden_step_seconds());
}

std::string format_traffic(const std::vector<RankTraffic>& traffic) {
  std::string text;
  for (const RankTraffic& one : traffic) {
    text += fmt::format("    {:<28}{:>14}   {:.0f} x, {:.0f} messages in all\n", one.name,
                        format_bytes(static_cast<int64_t>(one.bytes)), one.runs, one.messages);
  }
  return text;
}

nlohmann::json to_json(const MessageTime& time) {
  return {{"link",
           {{"latency_seconds", time.link.latency_seconds},
            {"bytes_per_second", time.link.bytes_per_second},
            {"source", time.link.source}}},
          {"seconds", time.seconds},
          {"computing_seconds", time.computing_seconds},
          {"hidden_share", time.hidden_share()},
          {"step_seconds_without_overlap", time.unhidden_step_seconds()}};
}

nlohmann::json to_json(const std::vector<RankTraffic>& traffic) {
  nlohmann::json json = nlohmann::json::object();
  for (const RankTraffic& one : traffic) {
    json[one.name] = {{"runs", one.runs}, {"messages", one.messages}, {"bytes", one.bytes}};
  }
  return json;
}

}  // namespace shoehorn
