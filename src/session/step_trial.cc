#include "session/step_trial.h"

#include <algorithm>
#include <utility>

#include "ops/op_info.h"
#include "passes/pipeline.h"
#include "passes/recompute.h"
#include "passes/recompute_set.h"
#include "plan/buffer_assignment.h"
#include "plan/machine_profile.h"
#include "plan/pack.h"
#include "plan/pack_check.h"

namespace shoehorn {

namespace {

// Two cores with AVX-512 and bf16 products.
constexpr MachineLimits kOrdinaryMachine = {
    .fp32_flops = 220e9, .bf16_flops = 440e9, .bytes_per_second = 40e9};
// What attention reaches of the rate of products, between which its softmax stands: 0.42 (short windows) to 0.81 (the backward of long
// sequences) in the records of docs/measurements.md.
constexpr double kAttentionEfficiency = 0.5;

std::vector<Interval> device_intervals(const std::vector<Buffer>& buffers) {
  std::vector<Interval> intervals;
  for (const Buffer& buffer : buffers) {
    if (buffer.space == AddressSpace::kDevice) intervals.push_back({buffer.first, buffer.last, buffer.bytes});
  }
  return intervals;
}

// The positions from which on layers have something else than forward, by layer.
std::map<int32_t, int64_t> first_backward_of_layers(const Program& program) {
  std::map<int32_t, int64_t> first;
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Region& region = program.nodes()[at].region;
    if (region.layer >= 0 && region.phase != Phase::kForward && region.micro_batch == 0)
      first.try_emplace(region.layer, static_cast<int64_t>(at));
  }
  return first;
}

void describe_gaps(const Program& program, const std::vector<int64_t>& live, TrialOutcome& outcome) {
  const auto peak = std::max_element(live.begin(), live.end()) - live.begin();
  const auto readers = program.readers();
  const std::vector<std::string> names = forward_names(program);
  const std::map<int32_t, int64_t> backward = first_backward_of_layers(program);
  for (size_t at = 0; at < names.size(); ++at) {
    const Node& node = program.nodes()[at];
    if (names[at].empty()) continue;
    auto last_use = static_cast<int64_t>(at);
    auto first_read = static_cast<int64_t>(live.size());
    for (const ValueId output : node.outputs) {
      for (const NodeId reader : readers[output.at()]) {
        const auto position = static_cast<int64_t>(reader.at());
        if (program.node(reader).region.phase == Phase::kForward)
          last_use = std::max(last_use, position);
        else
          first_read = std::min(first_read, position);
      }
    }
    const auto own = backward.find(node.region.layer);
    if (own != backward.end() && own->second > last_use + 1) {
      outcome.gap_bytes[names[at]] =
          *std::max_element(live.begin() + last_use + 1, live.begin() + own->second);
    }
    if (last_use < peak && peak < first_read) outcome.across_peak.insert(names[at]);
  }
}

}  // namespace

double nominal_node_seconds(const Program& program, const Node& node) {
  const OpContext context{program, node};
  const OpInfo& info = op_info(node.kind);
  const Cost cost = info.cost(context);
  const DType operands = info.op_class == OpClass::kContraction ? context.type(0).dtype : DType::kF32;
  const bool is_attention = node.kind == OpKind::kAttention || node.kind == OpKind::kAttentionGrad;
  const double efficiency = is_attention ? kAttentionEfficiency : 1;
  return std::max(cost.flops / (efficiency * kOrdinaryMachine.product_flops(operands)),
                  (cost.bytes_read + cost.bytes_written) / kOrdinaryMachine.bytes_per_second);
}

StepTrial::StepTrial(ProgramFamily& family, const StepOptions& options, const PlanTarget& target,
                     NodeCost cost)
    : family_(family),
      options_(options),
      target_(target),
      cost_(std::move(cost)),
      start_(family),
      step_(family.program(family.find(ProgramKind::kTrainStep))) {}

StepTrial::~StepTrial() {
  start_.restore(family_);
}

void StepTrial::make(const std::set<std::string>& names, int64_t every_n_layers) {
  ++trials_;
  start_.restore(family_);
  StepOptions options = options_;
  options.recompute_set = names;
  options.recompute_every_n_layers = every_n_layers;
  finish_programs_unchecked(family_, options);
}

TrialOutcome StepTrial::outcome() const {
  TrialOutcome outcome;
  const Program* largest = nullptr;
  std::vector<int64_t> live_of_largest;
  for (const Program& program : family_.programs) {
    if (program.kind() == ProgramKind::kEvaluate) continue;
    const std::vector<Interval> intervals = device_intervals(assign_buffers(program, target_).buffers);
    std::vector<int64_t> live =
        live_bytes_by_position(intervals, static_cast<int64_t>(program.nodes().size()), kArenaAlignment);
    const int64_t most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    if (largest == nullptr || most > outcome.live_bytes) {
      outcome.live_bytes = most;
      largest = &program;
      live_of_largest = std::move(live);
    }
    const auto runs =
        static_cast<double>(family_.runs_in_step(program, options_.gradient_accumulation_steps));
    if (runs == 0) continue;
    for (const Node& node : program.nodes()) outcome.seconds += runs * cost_(program, node);
  }
  if (largest != nullptr && !live_of_largest.empty()) describe_gaps(*largest, live_of_largest, outcome);
  return outcome;
}

TrialOutcome StepTrial::with_set(const std::set<std::string>& names) {
  make(names, 0);
  return outcome();
}

TrialOutcome StepTrial::with_groups(int64_t every_n_layers) {
  make({}, every_n_layers);
  return outcome();
}

double StepTrial::recompute_seconds(const std::set<std::string>& names) const {
  Program probe = step_;
  make_values_again(probe, names, options_);
  double seconds = 0;
  for (const Node& node : probe.nodes()) {
    if (node.region.phase == Phase::kRecompute) seconds += cost_(probe, node);
  }
  return seconds;
}

int64_t StepTrial::packed_bytes(int64_t target_bytes, int64_t effort) const {
  int64_t bytes = 0;
  for (const Program& program : family_.programs) {
    if (program.kind() == ProgramKind::kEvaluate) continue;
    const std::vector<Interval> intervals = device_intervals(assign_buffers(program, target_).buffers);
    bytes = std::max(bytes, pack(intervals, kArenaAlignment, target_bytes, effort).bytes);
  }
  return bytes;
}

}  // namespace shoehorn
