#include <array>

#include "ops/op_definitions.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

using Table = std::array<OpInfo, static_cast<size_t>(OpKind::kOpKindCount)>;

Table make_table() {
  Table table{};
  std::array<bool, std::tuple_size_v<Table>> present{};
  for (const auto& family : {movement_ops(), rowwise_ops(), column_ops(), rotary_ops(), rms_norm_ops(),
                             matmul_ops(), attention_ops(), fused_ops(), loss_ops(), vocabulary_loss_ops(),
                             loss_scale_ops(), update_ops(), outer_update_ops(), collective_ops()}) {
    for (const OpInfo& info : family) {
      const auto at = static_cast<size_t>(info.kind);
      CHECK(!present[at], "op {} is defined twice", info.name);
      present[at] = true;
      table[at] = info;
    }
  }
  for (size_t at = 0; at < present.size(); ++at) CHECK(present[at], "op number {} is not defined", at);
  return table;
}

}  // namespace

const OpInfo& op_info(OpKind kind) {
  static const Table table = make_table();
  return table[static_cast<size_t>(kind)];
}

std::string_view op_class_name(OpClass op_class) {
  switch (op_class) {
    case OpClass::kContraction:
      return "tensor contractions";
    case OpClass::kNormalization:
      return "statistical normalizations";
    case OpClass::kElementwise:
      return "element-wise";
    case OpClass::kMovement:
      return "data movement";
    case OpClass::kUpdate:
      return "optimizer";
  }
  return "unknown";
}

bool multiplies_weight(OpKind kind) {
  const std::optional<WeightInput>& weight = op_info(kind).weight;
  return weight && !weight->is_table;
}

std::optional<int64_t> accumulator_input(OpKind kind, int64_t output) {
  for (const OpInfo::Accumulator& accumulator : op_info(kind).accumulators) {
    if (accumulator.output == output) return accumulator.input;
  }
  return std::nullopt;
}

void set_accumulator(Node& node, int64_t input, ValueId accumulator) {
  const auto at = static_cast<size_t>(input);
  if (node.inputs.size() <= at) node.inputs.resize(at + 1);
  node.inputs[at] = accumulator;
}

std::vector<ValueId> terms_in_place(const Program& program, ValueId value) {
  std::vector<ValueId> terms = {value};
  while (program.value(terms.back()).producer.valid()) {
    const Value& last = program.value(terms.back());
    const Node& node = program.node(last.producer);
    const std::optional<int64_t> input = accumulator_input(node.kind, last.output);
    if (!input || *input >= std::ssize(node.inputs)) break;
    const ValueId before = node.inputs[static_cast<size_t>(*input)];
    if (!before.valid() || !program.value(before).producer.valid()) break;
    terms.push_back(before);
  }
  return terms;
}

std::vector<AliasRule> alias_rules(const Program& program, const Node& node) {
  const OpInfo& info = op_info(node.kind);
  const OpContext context{program, node};
  std::vector<AliasRule> rules = info.aliases != nullptr ? info.aliases(context) : std::vector<AliasRule>{};
  for (const OpInfo::Accumulator& accumulator : info.accumulators) {
    if (context.has(accumulator.input)) rules.push_back({accumulator.output, accumulator.input, true});
  }
  return rules;
}

AddressSpace output_space(const Program& program, const Node& node) {
  if (const auto* copy = std::get_if<CopyAttributes>(&node.attributes)) return copy->to;
  for (const ValueId input : node.inputs) {
    if (input.valid()) return program.value(input).space;
  }
  return AddressSpace::kDevice;
}

Cost streaming_cost(const OpContext& context, double flops_per_output) {
  Cost cost;
  for (const ValueId input : context.node.inputs) {
    if (input.valid()) cost.bytes_read += static_cast<double>(context.program.type(input).bytes());
  }
  for (const ValueId output : context.node.outputs) {
    cost.bytes_written += static_cast<double>(context.program.type(output).bytes());
  }
  cost.flops = flops_per_output * static_cast<double>(context.output_type(0).shape.elements());
  return cost;
}

void fail_type(const OpContext& context, int64_t input, std::string_view expected) {
  std::string inputs;
  for (const ValueId value : context.node.inputs) {
    if (!value.valid()) continue;
    inputs += fmt::format("{}{} {}", inputs.empty() ? "" : ", ", context.program.value(value).name,
                          type_name(context.program.type(value)));
  }
  throw user_error("[{} in {}] expected input {} to be {}, got {} ({})", op_info(context.node.kind).name,
                   region_name(context.node.region), input, expected, type_name(context.type(input)), inputs);
}

}  // namespace shoehorn
