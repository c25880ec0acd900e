#include "analysis/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/operation_anatomy.h"
#include "analysis/sized_program.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

// How large a call of the program is whose micro-batches have such samples.
std::vector<int64_t> mean_counts(const Program& program, const SampleLengths& lengths) {
  const int64_t tokens = std::llround(lengths.mean * static_cast<double>(lengths.samples));
  std::vector<int64_t> counts;
  for (size_t i = 0; i < program.counts().size(); ++i) {
    const Count& count = program.counts()[i];
    const bool is_input = kBatchAxes[i % kBatchAxes.size()] == BatchAxis::kTokens;
    counts.push_back(is_input ? std::min(count.maximum, round_up(tokens, count.multiple)) : count.maximum);
  }
  return counts;
}

// The program at that size, its attention over sequences as long as a token sees on average.
Program at_lengths(const Program& program, const SampleLengths& lengths) {
  Program sized = at_counts(program, mean_counts(program, lengths));
  const auto attended = std::max<int64_t>(1, std::llround(lengths.attended()));
  for (Node& node : sized.nodes()) {
    if (auto* attention = std::get_if<AttentionAttributes>(&node.attributes)) {
      attention->max_query_length = std::min(attention->max_query_length, attended);
      attention->max_key_length = std::min(attention->max_key_length, attended);
    }
  }
  return sized;
}

// Adds how often each different node runs in a step.
void count_nodes(const Program& program, double runs, std::map<OpWork, double>& works) {
  for (const Node& node : program.nodes()) {
    const OpContext context{program, node};
    OpWork work = op_work(context, op_info(node.kind).cost(context));
    if (work.flops == 0 && work.bytes == 0) continue;  // a view
    works[std::move(work)] += runs;
  }
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

StepTime least_step_time(const Session& session, const MachineLimits& limits) {
  return {.seconds = total_of(operation_anatomy(planned_work(session), limits)).floor_seconds};
}

StepTime rated_step_time(const Session& session, const Device& device) {
  StepTime time;
  for (const NodeWork& node : planned_work(session)) {
    const double bytes = node.cost.bytes_read + node.cost.bytes_written;
    time.seconds += node.runs * std::max(node.cost.flops / device.peak_flops(node.operands),
                                         bytes / device.figure("bandwidth"));
  }
  return time;
}

StepTime calibrated_step_time(const Session& session, const OpCosts& costs,
                              const std::optional<SampleLengths>& lengths) {
  std::map<OpWork, double> works;
  for (const Program& program : session.family().programs) {
    const auto runs = static_cast<double>(session.calls_in_step(program));
    if (runs == 0) continue;
    if (lengths) {
      count_nodes(at_lengths(program, *lengths), runs, works);
    } else {
      count_nodes(program, runs, works);
    }
  }
  StepTime time{.is_calibrated = true};
  double unmeasured = 0;
  // Errors of one kind go together; those of several kinds are independent.
  std::map<std::string, double> errors;
  for (const auto& [work, runs] : works) {
    const OpEstimate estimate = costs.estimate(work);
    const double seconds = runs * estimate.seconds;
    time.seconds += seconds;
    errors[work.kind] += seconds * estimate.error;
    if (!estimate.is_measured) unmeasured += seconds;
  }
  if (time.seconds <= 0) return time;
  double squares = 0;
  for (const auto& [kind, error] : errors) squares += error * error;
  time.error = std::hypot(std::sqrt(squares) / time.seconds, costs.clock().error);
  time.unmeasured_share = unmeasured / time.seconds;
  return time;
}

std::string format_step_time(const StepTime& time) {
  if (!time.is_calibrated)
    return fmt::format("no less than {:.3f} s by the machine's rates (not calibrated)", time.seconds);
  return fmt::format("{:.3f} s ± {:.0f} % (calibrated)", time.seconds, std::ceil(100 * time.error));
}

nlohmann::json to_json(const StepTime& time) {
  nlohmann::json json = {{"step_seconds", time.seconds},
                         {"step_seconds_are", time.is_calibrated ? "calibrated" : "lower bound"}};
  if (time.is_calibrated) {
    json["step_seconds_error"] = time.error;
    json["unmeasured_share"] = time.unmeasured_share;
  }
  return json;
}

}  // namespace shoehorn
