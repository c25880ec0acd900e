#include "analysis/step_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/sized_program.h"
#include "base/error.h"
#include "base/median.h"
#include "base/plural.h"
#include "plan/memory_timeline.h"
#include "report/trace_file.h"

namespace shoehorn {

namespace {

constexpr int64_t kHostThread = 0;
constexpr int64_t kFirstLaneThread = 1;

// What can happen around a step besides waiting for data: log, evaluation and checkpoint, after a step and at
// the end of an epoch.
constexpr int64_t kHostSlicesAround = 6;

double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds / 1e9 : 0;
}

bool has_other_lanes(const Session& session) {
  return std::ranges::any_of(session.family().programs, [](const Program& program) {
    return std::ranges::any_of(program.nodes(), [](const Node& node) { return node.lane != 0; });
  });
}

}  // namespace

std::string_view host_work_name(HostWork work) {
  static constexpr std::array<std::string_view, 4> kNames = {"data_wait", "logging", "evaluation",
                                                             "checkpoint"};
  return kNames.at(static_cast<size_t>(work));
}

StepProfile::StepProfile(const Session& session, int64_t steps)
    : session_(session), most_steps_(static_cast<size_t>(steps)) {
  CHECK(steps > 0, "a profile of {} steps", steps);
  const int64_t micro_batches = session.options().step.gradient_accumulation_steps;
  int64_t runs = 0;
  int64_t nodes = 0;
  int64_t counts = 0;
  for (const Program& program : session.family().programs) {
    const auto calls = static_cast<int64_t>(std::ceil(session.calls_in_step(program)));
    runs += calls;
    nodes += calls * static_cast<int64_t>(program.nodes().size());
    counts += calls * static_cast<int64_t>(program.counts().size());
  }
  constexpr int64_t kMaxNodes = int64_t{1} << 26;  // 1 GiB of their times
  if (steps > kMaxNodes / (nodes + counts + micro_batches + kHostSlicesAround)) {
    throw user_error("[--profile] expected at most {} steps, which are recorded node by node, got {}",
                     kMaxNodes / (nodes + counts + micro_batches + kHostSlicesAround), steps);
  }
  steps_.reserve(most_steps_);
  runs_.reserve(static_cast<size_t>(steps * runs));
  counts_.reserve(static_cast<size_t>(steps * counts));
  host_.reserve(static_cast<size_t>(steps * (1 + micro_batches + kHostSlicesAround)));
  times_.resize(static_cast<size_t>(steps * nodes));
}

int64_t StepProfile::reserved_bytes() const {
  return static_cast<int64_t>(steps_.capacity() * sizeof(Step) + runs_.capacity() * sizeof(Run) +
                              host_.capacity() * sizeof(HostSlice) + counts_.capacity() * sizeof(int64_t) +
                              times_.capacity() * sizeof(NodeTimes));
}

void StepProfile::begin_step(int64_t number, double begin_seconds) {
  is_recording_ = steps_.size() < most_steps_;
  if (is_recording_) steps_.push_back({number, begin_seconds, begin_seconds});
}

void StepProfile::end_step() {
  if (is_recording_) steps_.back().end = now_seconds();
  is_recording_ = false;
}

void StepProfile::drop_step() {
  if (!is_recording_) return;
  const double begin = steps_.back().begin;
  for (; !runs_.empty() && runs_.back().begin >= begin; runs_.pop_back()) {
    used_nodes_ = runs_.back().first_node;
    counts_.resize(runs_.back().first_count);
  }
  while (!host_.empty() && host_.back().begin >= begin) host_.pop_back();
  steps_.pop_back();
  is_recording_ = false;
}

std::span<NodeTimes> StepProfile::begin_run(ProgramId program, std::span<const int64_t> counts) {
  if (!is_recording_) return {};
  const Program& ran = session_.family().program(program);
  CHECK(runs_.size() < runs_.capacity() && used_nodes_ + ran.nodes().size() <= times_.size() &&
            counts_.size() + counts.size() <= counts_.capacity(),
        "no room is reserved for a run of {}", ran.name());
  const size_t first_count = counts_.size();
  counts_.insert(counts_.end(), counts.begin(), counts.end());
  runs_.push_back({&ran, now_seconds(), used_nodes_, first_count});
  used_nodes_ += ran.nodes().size();
  return std::span(times_).subspan(runs_.back().first_node, ran.nodes().size());
}

void StepProfile::host_work(HostWork work, double begin_seconds, double end_seconds) {
  if (is_recording_ && host_.size() < host_.capacity()) host_.push_back({work, begin_seconds, end_seconds});
}

std::vector<Cost> StepProfile::costs_of(const Run& run) const {
  const Program sized =
      at_counts(*run.program, std::span(counts_).subspan(run.first_count, run.program->counts().size()));
  std::vector<Cost> costs;
  for (const Node& node : sized.nodes()) costs.push_back(op_info(node.kind).cost({sized, node}));
  return costs;
}

std::span<const NodeTimes> StepProfile::times_of(const Run& run) const {
  return std::span(times_).subspan(run.first_node, run.program->nodes().size());
}

double StepProfile::end_of(const Run& run) const {
  double end = run.begin;
  for (const NodeTimes& times : times_of(run)) end = std::max(end, times.end);
  return end;
}

// Calls function(run, index of the node, cost, begin, end) in the program's order.
template <typename Function>
void StepProfile::for_each_node(const Function& function) const {
  for (const Run& run : runs_) {
    const std::vector<Cost> costs = costs_of(run);
    const std::span<const NodeTimes> times = times_of(run);
    double last_end = run.begin;  // of lane 0
    for (size_t i = 0; i < costs.size(); ++i) {
      const Node& node = run.program->nodes()[i];
      const bool follows = node.lane == 0 && !waits_for_other_lane(*run.program, node);
      function(run, i, costs[i], follows ? last_end : times[i].begin, times[i].end);
      if (node.lane == 0) last_end = times[i].end;
    }
  }
}

template <typename Function>
void StepProfile::for_each_wait(const Function& function) const {
  for (const Run& run : runs_) {
    for (const LaneWait& wait : waits_of_lane_0(*run.program, run.begin, times_of(run)))
      function(wait.begin, wait.end);
  }
}

void StepProfile::each_node(
    const std::function<void(const OpContext&, const Cost&, double seconds)>& function) const {
  for_each_node([&](const Run& run, size_t i, const Cost& cost, double begin, double end) {
    function({*run.program, run.program->nodes()[i]}, cost, end - begin);
  });
}

std::vector<OpTime> StepProfile::by_op() const {
  std::map<std::pair<int32_t, std::string>, OpTime> times;
  for_each_node([&](const Run& run, size_t i, const Cost& cost, double begin, double end) {
    const Node& node = run.program->nodes()[i];
    const std::string name(op_info(node.kind).name);
    OpTime& time = times[{node.lane, name}];
    time.name = name;
    time.lane = node.lane;
    ++time.calls;
    time.seconds += end - begin;
    time.flops += cost.flops;
    time.bytes += cost.bytes_read + cost.bytes_written;
  });
  std::vector<OpTime> sorted;
  for (auto& [name, time] : times) sorted.push_back(std::move(time));
  std::stable_sort(sorted.begin(), sorted.end(), [](const OpTime& a, const OpTime& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.seconds > b.seconds;
  });
  return sorted;
}

double StepProfile::waited_seconds() const {
  double seconds = 0;
  for_each_wait([&](double begin, double end) { seconds += end - begin; });
  return seconds;
}

MessageOverlap StepProfile::message_overlap() const {
  MessageOverlap overlap;
  for (const Run& run : runs_) {
    if (run.program->kind() != ProgramKind::kEvaluate)
      add_overlap(*run.program, run.begin, times_of(run), overlap);
  }
  return overlap;
}

double StepProfile::median_step_seconds() const {
  std::vector<double> seconds;
  for (const Step& step : steps_) seconds.push_back(step.end - step.begin);
  return median(std::move(seconds));
}

double StepProfile::recorded_seconds() const {
  double seconds = 0;
  for (const Step& step : steps_) seconds += step.end - step.begin;
  return seconds;
}

void StepProfile::write(const std::filesystem::path& path) const {
  TraceFile trace(path);
  trace.name_process("shoehorn");
  trace.name_thread(kHostThread, "host");
  trace.name_thread(kFirstLaneThread, "lane 0: computing");
  if (has_other_lanes(session_)) trace.name_thread(kFirstLaneThread + 1, "lane 1: messages");
  const double origin = steps_.empty() ? 0 : steps_[0].begin;
  const auto host = [&](std::string_view name, std::string_view category, double begin, double end) {
    trace.add_slice({name, category, kHostThread, begin - origin, end - begin, {}});
  };
  for (const Step& step : steps_) host(fmt::format("step {}", step.number), "step", step.begin, step.end);
  for (const HostSlice& slice : host_) host(host_work_name(slice.work), "host", slice.begin, slice.end);
  for (const Run& run : runs_) host(std::string(run.program->name()), "program", run.begin, end_of(run));

  for_each_wait([&](double begin, double end) {
    trace.add_slice({"wait for lane 1", "wait", kFirstLaneThread, begin - origin, end - begin, {}});
  });

  std::map<const Program*, MemoryTimeline> timelines;
  for (size_t i = 0; i < session_.family().programs.size(); ++i) {
    timelines[&session_.family().programs[i]] =
        memory_timeline(session_.state(), session_.plan().programs[i]);
  }
  for_each_node([&](const Run& run, size_t i, const Cost& cost, double begin, double end) {
    const Node& node = run.program->nodes()[i];
    const double seconds = end - begin;
    const std::string region = region_name(node.region);
    trace.add_slice({op_info(node.kind).name,
                     phase_name(node.region.phase),
                     kFirstLaneThread + node.lane,
                     begin - origin,
                     seconds,
                     {{"region", std::string_view(region)},
                      {"layer", int64_t{node.region.layer}},
                      {"component", component_name(node.region.component)},
                      {"micro_batch", int64_t{node.region.micro_batch}},
                      {"node", static_cast<int64_t>(i)},
                      {"pass", node.pass},
                      {"flops", cost.flops},
                      {"bytes_read", cost.bytes_read},
                      {"bytes_written", cost.bytes_written},
                      {"gflops_per_second", rate(cost.flops, seconds)},
                      {"gigabytes_per_second", rate(cost.bytes_read + cost.bytes_written, seconds)}}});
    TraceArguments memory;
    for (const auto& [role, bytes] : timelines[run.program].bytes)
      memory.emplace_back(role_name(role), bytes[i]);
    trace.add_counter("memory", begin - origin, memory);
  });
  trace.commit();
}

std::string op_name(const OpTime& op) {
  return op.lane == 0 ? op.name : op.name + ", beside";
}

std::string format_profile(const StepProfile& profile) {
  const double all = profile.recorded_seconds();
  std::string text = fmt::format("Profile of {}, {:.3f} s\n  {:<36}{:>8}{:>12}{:>9}{:>11}{:>9}\n",
                                 plural(profile.recorded_steps(), "step"), all, "op", "calls", "ms", "share",
                                 "GFLOP/s", "GB/s");
  double in_ops = 0;
  bool has_other_lanes = false;
  for (const OpTime& op : profile.by_op()) {
    if (op.lane == 0) in_ops += op.seconds;
    has_other_lanes = has_other_lanes || op.lane != 0;
    text += fmt::format("  {:<36}{:>8}{:>12.3f}{:>8.1f}%{:>11.1f}{:>9.1f}\n", op_name(op), op.calls,
                        1000 * op.seconds, 100 * op.seconds / all, rate(op.flops, op.seconds),
                        rate(op.bytes, op.seconds));
  }
  const auto add = [&](const char* what, double seconds) {
    text += fmt::format("  {:<38}{:>6}{:>12.3f}{:>8.1f}%\n", what, "", 1000 * seconds,
                        all > 0 ? 100 * seconds / all : 0);
  };
  if (has_other_lanes) {
    const double waited = profile.waited_seconds();
    add("waiting for messages", waited);
    in_ops += waited;
  }
  add("host: data, log, evaluation, checkpoint", all - in_ops);
  return text + format_overlap(profile.message_overlap(), profile.recorded_steps());
}

nlohmann::json to_json(const StepProfile& profile) {
  nlohmann::json ops = nlohmann::json::array();
  for (const OpTime& op : profile.by_op()) {
    ops.push_back({{"op", op.name},
                   {"lane", op.lane},
                   {"calls", op.calls},
                   {"seconds", op.seconds},
                   {"flops", op.flops},
                   {"bytes", op.bytes}});
  }
  return {
      {"steps", profile.recorded_steps()}, {"seconds", profile.recorded_seconds()}, {"ops", std::move(ops)}};
}

}  // namespace shoehorn
