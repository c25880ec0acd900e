#include "analysis/memory_anatomy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "ops/op_info.h"
#include "plan/pack.h"
#include "plan/pack_check.h"
#include "report/axis.h"

namespace shoehorn {

namespace {

constexpr int64_t kBarCells = 40;

struct Part {
  std::string_view name;
  std::vector<Role> roles;
};

// The guides' list.
const std::array<Part, 8>& part_list() {
  static const std::array<Part, 8> parts = {{
      {"weights", {Role::kWeight, Role::kMasterWeight}},
      {"optimizer states", {Role::kOptimizerState}},
      {"gradients", {Role::kGradient}},
      {"activations kept for the backward", {Role::kActivation}},
      {"temporaries", {Role::kTemporary}},
      {"messages between ranks", {Role::kCommunication}},
      {"workspace", {Role::kWorkspace}},
      {"inputs and scalars", {Role::kInput, Role::kScalar}},
  }};
  return parts;
}

std::vector<NamedBytes> largest_first(const std::map<std::string, int64_t>& bytes) {
  std::vector<NamedBytes> rows;
  for (const auto& [name, amount] : bytes) rows.push_back({name, amount});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
  return rows;
}

std::vector<NamedBytes> parts_of(const MemoryForecast& forecast) {
  std::map<std::string, int64_t> by_role = forecast.by_role;
  std::vector<NamedBytes> parts;
  const auto add = [&](std::string_view name, int64_t bytes) {
    if (bytes > 0) parts.push_back({std::string(name), bytes});
  };
  for (const Part& part : part_list()) {
    int64_t bytes = 0;
    for (const Role role : part.roles) bytes += by_role[std::string(role_name(role))];
    add(part.name, bytes);
  }
  add("slack between buffers", by_role["slack"]);
  add("the process besides", forecast.process_overhead_bytes);
  return parts;
}

// Of the arenas, with the process besides.
std::vector<NamedBytes> rows_of_process(std::map<std::string, int64_t> components,
                                        const MemoryForecast& forecast) {
  const int64_t slack = components["slack"];
  components.erase("slack");
  std::vector<NamedBytes> rows = largest_first(components);
  if (slack > 0) rows.push_back({"slack between buffers", slack});
  rows.push_back({"the process besides", forecast.process_overhead_bytes});
  return rows;
}

bool is_on_device(const Buffer& buffer) {
  return buffer.space == AddressSpace::kDevice;
}

std::vector<int64_t> live_bytes(const ProgramPlan& plan) {
  std::vector<Interval> intervals;
  for (const Buffer& buffer : plan.buffers) {
    if (is_on_device(buffer)) intervals.push_back({buffer.first, buffer.last, buffer.bytes});
  }
  return live_bytes_by_position(intervals, static_cast<int64_t>(plan.workspace_bytes.size()));
}

std::vector<StepMoment> timeline_of(const Program& program, const ProgramPlan& plan) {
  const std::vector<int64_t> live = live_bytes(plan);
  std::vector<StepMoment> moments;
  for (size_t at = 0; at < live.size(); ++at) {
    const Region& region = program.nodes()[at].region;
    const Phase phase = region.phase == Phase::kRecompute ? Phase::kBackward : region.phase;
    const std::string name = region.layer < 0
                                 ? fmt::format("{}, {}", phase_name(phase), component_name(region.component))
                                 : fmt::format("{}, layer {}", phase_name(phase), region.layer);
    auto moment = std::find_if(moments.begin(), moments.end(),
                               [&](const StepMoment& known) { return known.name == name; });
    if (moment == moments.end()) moment = moments.insert(moments.end(), {name, static_cast<int64_t>(at), 0});
    moment->live_bytes = std::max(moment->live_bytes, live[at]);
  }
  return moments;
}

// The buffers alive at the peak, by role and component of all layers.
std::vector<NamedBytes> alive_at(const ProgramPlan& plan, int64_t position) {
  std::map<std::string, int64_t> bytes;
  for (const Buffer& buffer : plan.buffers) {
    if (is_on_device(buffer) && buffer.first <= position && position <= buffer.last)
      bytes[fmt::format("{} of {}", role_name(buffer.role), component_name(buffer.region.component))] +=
          buffer.bytes;
  }
  return largest_first(bytes);
}

std::string bar(int64_t amount, int64_t of) {
  const int64_t cells = of == 0 ? 0 : (amount * kBarCells + of / 2) / of;
  return std::string(static_cast<size_t>(cells), '#');
}

nlohmann::json rows_json(const std::vector<NamedBytes>& rows) {
  nlohmann::json array = nlohmann::json::array();
  for (const NamedBytes& row : rows) array.push_back({{"name", row.name}, {"bytes", row.bytes}});
  return array;
}

}  // namespace

MemoryAnatomy memory_anatomy(const Session& session, const MemoryForecast& forecast) {
  const MemoryPlan& plan = session.plan();
  const ProgramPlan& largest = plan.program(plan.largest());
  const Program& program = session.family().program(plan.largest());
  MemoryAnatomy anatomy;
  anatomy.parameters = session.parameter_count();
  anatomy.parts = parts_of(forecast);
  anatomy.components = largest_first(forecast.by_component);
  anatomy.components_of_all_layers = rows_of_process(forecast.by_component_kind, forecast);
  anatomy.residents = rows_of_process(bytes_by_role_and_component(session.state(), plan), forecast);
  std::ranges::stable_sort(anatomy.residents, std::ranges::greater{}, &NamedBytes::bytes);
  anatomy.program = program.name();
  anatomy.run_phase = program.kind() == ProgramKind::kEvaluate ? "evaluate" : "train";
  anatomy.timeline = timeline_of(program, largest);
  const int64_t peak = largest.device().peak_position;
  if (!program.nodes().empty()) {
    const Node& node = program.nodes()[static_cast<size_t>(peak)];
    anatomy.peak_node =
        fmt::format("node {} of {}, {} in {}, {}", peak, program.nodes().size(), op_info(node.kind).name,
                    region_name(node.region), phase_name(node.region.phase));
  }
  anatomy.alive_at_peak = alive_at(largest, peak);
  anatomy.total_bytes = forecast.process_bytes();
  return anatomy;
}

UnexplainedText unexplained_text(const MemoryAnatomy& anatomy) {
  const int64_t bytes = anatomy.unexplained_bytes();
  const double share = static_cast<double>(bytes) / static_cast<double>(anatomy.measured_bytes);
  return {fmt::format("{}{}", bytes < 0 ? "-" : "", format_bytes(std::abs(bytes))),
          fmt::format("{:.2f} %", 100 * share)};
}

std::string format_memory_anatomy(const MemoryAnatomy& anatomy) {
  const auto parameters = static_cast<double>(std::max<int64_t>(1, anatomy.parameters));
  const auto share = [&](int64_t bytes) {
    return format_value(static_cast<double>(bytes) / static_cast<double>(anatomy.total_bytes), Unit::kShare);
  };
  const auto row = [&](const std::string& name, int64_t bytes) {
    return fmt::format("  {:<42}{:>14}{:>14.2f}{:>11}\n", name, format_bytes(bytes),
                       static_cast<double>(bytes) / parameters, share(bytes));
  };
  std::string text = fmt::format("Memory ({} parameters)\n  {:<42}{:>14}{:>14}{:>11}\n",
                                 format_count(anatomy.parameters), "", "", "a parameter", "share");
  for (const NamedBytes& part : anatomy.parts) text += row(part.name, part.bytes);
  text += row("peak of the whole process", anatomy.total_bytes);
  if (anatomy.measured_bytes > 0) {
    const UnexplainedText unexplained = unexplained_text(anatomy);
    text += fmt::format("  {:<42}{:>14}\n  {:<42}{:>14}{:>25}\n", "measured peak of the process",
                        format_bytes(anatomy.measured_bytes), "not accounted for", unexplained.bytes,
                        unexplained.share);
  }

  text += fmt::format("\nBy component\n  {:<42}{:>14}{:>25}\n", "", "", "share");
  for (const NamedBytes& component : anatomy.components_of_all_layers) {
    text += fmt::format("  {:<42}{:>14}{:>25}\n", component.name, format_bytes(component.bytes),
                        share(component.bytes));
  }

  text += fmt::format("\nAlong the step ({}): the most that lives in the transient arena at a time\n",
                      anatomy.program);
  int64_t most = 0;
  for (const StepMoment& moment : anatomy.timeline) most = std::max(most, moment.live_bytes);
  for (const StepMoment& moment : anatomy.timeline) {
    text += fmt::format("  {:<30}{:>12}  {}{}\n", moment.name, format_bytes(moment.live_bytes),
                        bar(moment.live_bytes, most), moment.live_bytes == most ? " peak" : "");
  }
  text += fmt::format("\nAlive at the peak ({})\n", anatomy.peak_node);
  for (const NamedBytes& kind : anatomy.alive_at_peak)
    text += fmt::format("  {:<42}{:>14}\n", kind.name, format_bytes(kind.bytes));
  return text;
}

nlohmann::json to_json(const MemoryAnatomy& anatomy) {
  nlohmann::json timeline = nlohmann::json::array();
  for (const StepMoment& moment : anatomy.timeline) {
    timeline.push_back(
        {{"name", moment.name}, {"first_node", moment.first_node}, {"live_bytes", moment.live_bytes}});
  }
  nlohmann::json json = {{"parameters", anatomy.parameters},
                         {"parts", rows_json(anatomy.parts)},
                         {"components", rows_json(anatomy.components)},
                         {"program", anatomy.program},
                         {"timeline", std::move(timeline)},
                         {"peak_node", anatomy.peak_node},
                         {"alive_at_peak", rows_json(anatomy.alive_at_peak)},
                         {"total_bytes", anatomy.total_bytes}};
  if (anatomy.measured_bytes > 0) json["unexplained_bytes"] = anatomy.unexplained_bytes();
  return json;
}

}  // namespace shoehorn
