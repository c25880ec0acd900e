#include "passes/place_nodes.h"

#include "ops/op_info.h"

namespace shoehorn {

namespace {

void place(Program& program, size_t old_nodes, const NewNodes& made, bool is_before) {
  std::vector<NodeId> order;
  for (size_t i = 0; i < old_nodes; ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (!is_before) order.push_back(id);
    if (const auto found = made.find(id); found != made.end())
      order.insert(order.end(), found->second.begin(), found->second.end());
    if (is_before) order.push_back(id);
  }
  program.reorder(order);
}

}  // namespace

void place_before(Program& program, size_t old_nodes, const NewNodes& made) {
  place(program, old_nodes, made, true);
}

void place_behind(Program& program, size_t old_nodes, const NewNodes& made) {
  place(program, old_nodes, made, false);
}

void put_in_place(Program& program, size_t old_nodes, const Replacements& in_place_of) {
  if (in_place_of.empty()) return;
  std::vector<NodeId> order;
  for (size_t i = 0; i < old_nodes; ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const auto found = in_place_of.find(id);
    const NodeId stays = found == in_place_of.end() ? id : found->second;
    if (stays.valid()) order.push_back(stays);
  }
  program.reorder(order);
}

NodeId logits_product(const Program& program) {
  for (const Node& node : program.nodes()) {
    if (!op_info(node.kind).is_loss) continue;
    if (multiplies_weight(node.kind)) return {};
    NodeId producer = program.value(node.inputs[0]).producer;
    while (producer.valid() && !multiplies_weight(program.node(producer).kind))
      producer = program.value(program.node(producer).inputs[0]).producer;
    return producer;
  }
  return {};
}

}  // namespace shoehorn
