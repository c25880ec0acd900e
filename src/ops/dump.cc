#include "ops/dump.h"

#include "ops/op_info.h"

namespace shoehorn {

namespace {

std::string reference(const Program& program, ValueId id) {
  if (!id.valid()) return "-";
  const Value& value = program.value(id);
  if (value.storage.valid()) return fmt::format("{}@{}", value.name, value.version);
  return fmt::format("%{}", id.index);
}

std::string line(const Program& program, const Node& node) {
  std::string outputs;
  for (const ValueId id : node.outputs) {
    const Value& value = program.value(id);
    outputs += fmt::format("{}{} {} {}", outputs.empty() ? "" : ", ", reference(program, id), value.name,
                           type_name(value.type));
  }
  std::string inputs;
  for (const ValueId id : node.inputs) inputs += (inputs.empty() ? "" : ", ") + reference(program, id);
  std::string where = fmt::format("{}, {}", region_name(node.region), phase_name(node.region.phase));
  if (node.region.micro_batch > 0) where += fmt::format(", micro-batch {}", node.region.micro_batch);
  return fmt::format("  {} = {}({}) {{{}}}\n", outputs, op_info(node.kind).name, inputs, where);
}

}  // namespace

std::string dump(const Program& program) {
  std::string text = fmt::format("program {}: {} nodes\n", program.name(), program.nodes().size());
  for (const Node& node : program.nodes()) text += line(program, node);
  for (const Program::Result& result : program.results()) {
    text += fmt::format("  result {} = {}\n", result.name, reference(program, result.value));
  }
  return text;
}

std::string dump_collectives(const Program& program) {
  std::string text;
  for (const Node& node : program.nodes()) {
    if (std::holds_alternative<CollectiveAttributes>(node.attributes)) text += line(program, node);
  }
  return text;
}

}  // namespace shoehorn
