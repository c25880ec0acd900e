#include "analysis/operation_anatomy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/axis.h"

namespace shoehorn {

namespace {

void add(ClassWork& total, const ClassWork& more) {
  total.nodes += more.nodes;
  total.flops += more.flops;
  total.bytes += more.bytes;
  total.floor_seconds += more.floor_seconds;
  total.seconds += more.seconds;
}

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

NodeWork work_of(const OpContext& context, double runs, const Cost& cost, double seconds = 0) {
  return {op_info(context.node.kind).op_class,
          context.node.region.phase,
          product_operands(context),
          runs,
          cost,
          seconds};
}

// The least time that a node's work takes.
double floor_seconds(const NodeWork& node, double bytes, const MachineLimits& limits) {
  return std::max(node.cost.flops / limits.product_flops(node.operands), bytes / limits.bytes_per_second);
}

nlohmann::json work_json(const ClassWork& work, bool has_floor) {
  nlohmann::json json = {
      {"nodes", work.nodes}, {"flops", work.flops}, {"bytes", work.bytes}, {"seconds", work.seconds}};
  if (has_floor) json["floor_seconds"] = work.floor_seconds;
  return json;
}

}  // namespace

ClassWork total_of(const OperationAnatomy& anatomy) {
  ClassWork total;
  for (const ClassWork& work : anatomy.classes) add(total, work);
  return total;
}

DType product_operands(const OpContext& node) {
  const bool is_product = op_info(node.node.kind).op_class == OpClass::kContraction;
  return is_product ? node.type(0).dtype : DType::kF32;
}

std::vector<NodeWork> planned_work(const Session& session) {
  std::vector<NodeWork> nodes;
  for (const Program& program : session.family().programs) {
    const double runs = session.calls_in_step(program);
    if (runs == 0) continue;
    for (const Node& node : program.nodes()) {
      const OpContext context{program, node};
      nodes.push_back(work_of(context, runs, op_info(node.kind).cost(context)));
    }
  }
  return nodes;
}

std::vector<NodeWork> measured_work(const StepProfile& profile) {
  std::vector<NodeWork> nodes;
  const double runs = 1 / static_cast<double>(std::max<int64_t>(1, profile.recorded_steps()));
  profile.each_node([&](const OpContext& context, const Cost& cost, double seconds) {
    nodes.push_back(work_of(context, runs, cost, seconds));
  });
  return nodes;
}

OperationAnatomy operation_anatomy(const std::vector<NodeWork>& nodes,
                                   const std::optional<MachineLimits>& limits) {
  OperationAnatomy anatomy;
  anatomy.has_floor = limits.has_value();
  std::map<OpClass, ClassWork> classes;
  for (const NodeWork& node : nodes) {
    const double bytes = node.cost.bytes_read + node.cost.bytes_written;
    const ClassWork work{.op_class = node.op_class,
                         .nodes = node.runs,
                         .flops = node.runs * node.cost.flops,
                         .bytes = node.runs * bytes,
                         .floor_seconds = limits ? node.runs * floor_seconds(node, bytes, *limits) : 0,
                         .seconds = node.runs * node.seconds};
    anatomy.is_measured = anatomy.is_measured || node.seconds > 0;
    add(classes[node.op_class], work);
    if (node.op_class != OpClass::kContraction) continue;
    if (node.phase == Phase::kForward) add(anatomy.forward, work);
    if (node.phase == Phase::kBackward) add(anatomy.backward, work);
  }
  for (auto& [op_class, work] : classes) {
    work.op_class = op_class;
    anatomy.classes.push_back(work);
  }
  return anatomy;
}

std::string format_operation_anatomy(const OperationAnatomy& anatomy) {
  const ClassWork total = total_of(anatomy);
  std::string text = fmt::format("Operations of a step ({:.3f} Tflop, {} read and written{})\n",
                                 total.flops / 1e12, format_bytes(static_cast<int64_t>(total.bytes)),
                                 anatomy.is_measured ? fmt::format(", {:.3f} s", total.seconds) : "");
  const bool compares = anatomy.is_measured && anatomy.has_floor;
  text += fmt::format("  {:<30}{:>10}{:>10}{}{}{}\n", "", "flops", "bytes",
                      anatomy.has_floor ? fmt::format("{:>14}", "at least") : "",
                      anatomy.is_measured ? fmt::format("{:>10}", "time") : "",
                      compares ? fmt::format("{:>16}", "x the floor") : "");
  const auto row = [&](std::string_view name, const ClassWork& work) {
    const auto share = [](double part, double whole) {
      return format_value(ratio(part, whole), Unit::kShare);
    };
    std::string line = fmt::format("  {:<30}{:>10}{:>10}", name, share(work.flops, total.flops),
                                   share(work.bytes, total.bytes));
    if (anatomy.has_floor) line += fmt::format("{:>11.1f} ms", 1000 * work.floor_seconds);
    if (anatomy.is_measured) line += fmt::format("{:>10}", share(work.seconds, total.seconds));
    if (compares) line += fmt::format("{:>16.2f}", ratio(work.seconds, work.floor_seconds));
    return line + "\n";
  };
  for (const ClassWork& work : anatomy.classes) text += row(op_class_name(work.op_class), work);
  text += row("the step", total);
  if (anatomy.has_floor)
    text += "  at least: flops at the rate that large products reach here, bytes at the memory's\n";
  if (anatomy.backward.flops > 0) {
    text += fmt::format("  contractions, backward to forward: {:.2f}x the flops",
                        ratio(anatomy.backward.flops, anatomy.forward.flops));
    if (anatomy.is_measured)
      text += fmt::format(", {:.2f}x the time", ratio(anatomy.backward.seconds, anatomy.forward.seconds));
    text += "\n";
  }
  return text;
}

nlohmann::json to_json(const OperationAnatomy& anatomy) {
  nlohmann::json classes;
  for (const ClassWork& work : anatomy.classes)
    classes[std::string(op_class_name(work.op_class))] = work_json(work, anatomy.has_floor);
  return {{"classes", std::move(classes)},
          {"contractions_forward", work_json(anatomy.forward, anatomy.has_floor)},
          {"contractions_backward", work_json(anatomy.backward, anatomy.has_floor)},
          {"total", work_json(total_of(anatomy), anatomy.has_floor)},
          {"measured", anatomy.is_measured}};
}

}  // namespace shoehorn
