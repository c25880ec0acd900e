#include "passes/node_fuser.h"

#include "ops/op_builder.h"

namespace shoehorn {

NodeFuser::NodeFuser(Program& program) : program_(program), nodes_(program.nodes().size()) {
  count_readers();
}

void NodeFuser::count_readers() {
  readers_.assign(program_.values().size(), 0);
  first_readers_.assign(program_.values().size(), {});
  for (size_t i = 0; i < nodes_; ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    for (const ValueId input : program_.node(id).inputs) {
      if (!input.valid()) continue;
      ++readers_[input.at()];
      if (!first_readers_[input.at()].valid()) first_readers_[input.at()] = id;
    }
  }
  for (const Program::Result& result : program_.results()) ++readers_[result.value.at()];
}

const Node* NodeFuser::output_of(ValueId value, OpKind kind) const {
  const NodeId producer = program_.value(value).producer;
  if (!producer.valid() || program_.node(producer).kind != kind || program_.value(value).output != 0)
    return nullptr;
  return &program_.node(producer);
}

const Node* NodeFuser::sole(ValueId value, OpKind kind) const {
  return is_old(value) && readers_[value.at()] == 1 ? output_of(value, kind) : nullptr;
}

const Node* NodeFuser::maker(ValueId value, OpKind kind, NodeId anchor) const {
  return is_old(value) && !(first_readers_[value.at()] < anchor) ? output_of(value, kind) : nullptr;
}

NodeId NodeFuser::append(NodeId anchor, OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                         const std::string& name) {
  return append(anchor, program_.node(anchor).region, kind, std::move(inputs), std::move(attributes), name);
}

NodeId NodeFuser::append(NodeId anchor, const Region& region, OpKind kind, std::vector<ValueId> inputs,
                         Attributes attributes, const std::string& name) {
  OpBuilder builder(program_);
  builder.set_region(region);
  const NodeId made = builder.add(kind, std::move(inputs), std::move(attributes), name);
  made_[anchor].push_back(made);
  return made;
}

void NodeFuser::place() {
  place_behind(program_, nodes_, made_);
  made_.clear();
  program_.remove_dead_nodes();
  nodes_ = program_.nodes().size();
  count_readers();
}

}  // namespace shoehorn
