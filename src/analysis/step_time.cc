#include "analysis/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/operation_anatomy.h"
#include "analysis/sized_program.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

// A mean between two sizes: where the time is to be a lower bound, the smaller one.
enum class Between : uint8_t { kLess, kNearest };

// How large a call of the program is whose micro-batches have such samples. Each is filled up to a multiple, of which a lower
// bound knows nothing.
std::vector<int64_t> mean_counts(const Program& program, const SampleLengths& lengths, Between between) {
  const double tokens = lengths.mean * static_cast<double>(lengths.samples);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < program.counts().size(); ++i) {
    const Count& count = program.counts()[i];
    const bool is_input = kBatchAxes[i % kBatchAxes.size()] == BatchAxis::kTokens;
    const int64_t mean = between == Between::kLess ? std::max<int64_t>(1, static_cast<int64_t>(tokens))
                                                   : round_up(std::llround(tokens), count.multiple);
    counts.push_back(is_input ? std::min(count.maximum, mean) : count.maximum);
  }
  return counts;
}

// The program at that size, its attention over sequences as long as a token sees on average.
Program at_lengths(const Program& program, const SampleLengths& lengths, Between between) {
  Program sized = at_counts(program, mean_counts(program, lengths, between));
  const double length = lengths.attended();
  const auto attended =
      std::max<int64_t>(1, between == Between::kLess ? static_cast<int64_t>(length) : std::llround(length));
  for (Node& node : sized.nodes()) {
    if (auto* attention = std::get_if<AttentionAttributes>(&node.attributes)) {
      attention->max_query_length = std::min(attention->max_query_length, attended);
      attention->max_key_length = std::min(attention->max_key_length, attended);
    }
  }
  return sized;
}

// The programs of a step as often as they run, each node's time by `node_seconds`; of several ranks with their messages over
// `link`.
StepTime time_of_step(const Session& session, const std::optional<SampleLengths>& lengths, Between between,
                      const RankLink* link,
                      const std::function<double(const OpContext& node, double runs)>& node_seconds) {
  StepTime time;
  const RankOptions& ranks = session.options().step.ranks;
  if (link != nullptr) time.messages = MessageTime{.link = *link, .ranks_of_host = ranks.ranks_of_host()};
  if (ranks.world_size > 1) time.sent = step_traffic(session);
  for (const Program& program : session.family().programs) {
    const double runs = session.calls_in_step(program);
    if (runs == 0) continue;
    std::optional<Program> shorter;
    if (lengths) shorter = at_lengths(program, *lengths, between);
    const Program& sized = shorter ? *shorter : program;
    const NodeSeconds once = [&](const OpContext& node) { return node_seconds(node, runs); };
    if (time.messages) {
      add_messages(sized, runs, once, *time.messages);
      continue;
    }
    for (const Node& node : sized.nodes()) {
      if (sends_messages(node)) {
        time.lacks_messages = true;
      } else {
        time.seconds += runs * once({sized, node});
      }
    }
  }
  if (time.messages) {
    add_messages_in_front(session, *time.messages);
    time.seconds = time.messages->step_seconds;
  }
  return time;
}

double bytes_of(const Cost& cost) {
  return cost.bytes_read + cost.bytes_written;
}

}  // namespace

SampleLengths sample_lengths(const Dataset& dataset, int64_t micro_batch_samples) {
  SampleLengths lengths{.samples = micro_batch_samples};
  const SampleSource& source = dataset.source();
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    for (int64_t document = 0; document < source.document_count(sample); ++document) {
      const auto tokens = static_cast<double>(source.document_length(sample, document));
      lengths.mean += tokens;
      lengths.mean_square += tokens * tokens;
    }
  }
  lengths.mean /= static_cast<double>(dataset.size());
  lengths.mean_square /= static_cast<double>(dataset.size());
  return lengths;
}

StepTime least_step_time(const Session& session, const MachineLimits& limits,
                         const std::optional<SampleLengths>& lengths, const RankLink* link) {
  return time_of_step(session, lengths, Between::kLess, link, [&](const OpContext& node, double) {
    const Cost cost = op_info(node.node.kind).cost(node);
    return std::max(cost.flops / limits.product_flops(product_operands(node)),
                    bytes_of(cost) / limits.bytes_per_second);
  });
}

StepTime rated_step_time(const Session& session, const Device& device,
                         const std::optional<SampleLengths>& lengths, const RankLink* link) {
  return time_of_step(session, lengths, Between::kLess, link, [&](const OpContext& node, double) {
    const Cost cost = op_info(node.node.kind).cost(node);
    return std::max(cost.flops / device.peak_flops(product_operands(node)),
                    bytes_of(cost) / device.figure("bandwidth"));
  });
}

StepTime calibrated_step_time(const Session& session, const OpCosts& costs,
                              const std::optional<SampleLengths>& lengths, const RankLink* link) {
  std::map<OpWork, OpEstimate> known;
  double computing = 0, unmeasured = 0;
  // Errors of one kind go together; those of several kinds are independent.
  std::map<std::string, double> errors;
  const auto seconds_of = [&](const OpContext& node, double runs) -> double {
    OpWork work = op_work(node, op_info(node.node.kind).cost(node));
    if (work.flops == 0 && work.bytes == 0) return 0;  // a view
    auto found = known.find(work);
    if (found == known.end()) found = known.emplace(work, costs.estimate(work)).first;
    const OpEstimate& estimate = found->second;
    const double seconds = runs * estimate.seconds;
    computing += seconds;
    errors[work.kind] += seconds * estimate.error;
    if (!estimate.is_measured) unmeasured += seconds;
    return estimate.seconds;
  };
  StepTime time = time_of_step(session, lengths, Between::kNearest, link, seconds_of);
  time.is_calibrated = true;
  if (computing <= 0) return time;
  double squares = 0;
  for (const auto& [kind, error] : errors) squares += error * error;
  time.error = std::hypot(std::sqrt(squares) / computing, costs.clock().error) * computing / time.seconds;
  time.unmeasured_share = unmeasured / computing;
  return time;
}

std::string error_text(const StepTime& time) {
  return fmt::format(" ± {:.0f} %", std::ceil(100 * time.error));
}

std::string format_step_time(const StepTime& time) {
  std::string text =
      time.is_calibrated
          ? fmt::format("{:.3f} s{} (calibrated)", time.seconds, error_text(time))
          : fmt::format("no less than {:.3f} s by the machine's rates (not calibrated)", time.seconds);
  if (time.messages) text += ", " + format_message_time(*time.messages);
  if (time.lacks_messages) text += ", without the ranks' messages";
  return text;
}

nlohmann::json to_json(const StepTime& time) {
  nlohmann::json json = {{"step_seconds", time.seconds},
                         {"step_seconds_are", time.is_calibrated ? "calibrated" : "lower bound"}};
  if (time.is_calibrated) {
    json["step_seconds_error"] = time.error;
    json["unmeasured_share"] = time.unmeasured_share;
  }
  if (time.messages) json["messages"] = to_json(*time.messages);
  if (time.lacks_messages) json["messages"] = nullptr;
  return json;
}

}  // namespace shoehorn
