#include "passes/node_fuser.h"

#include "ops/op_builder.h"

namespace shoehorn {

NodeFuser::NodeFuser(Program& program) : program_(program), nodes_(program.nodes().size()) {
  count_readers();
}

void NodeFuser::count_readers() {
  readers_.assign(program_.values().size(), 0);
  for (const Node& node : program_.nodes()) {
    for (const ValueId input : node.inputs) {
      if (input.valid()) ++readers_[input.at()];
    }
  }
  for (const Program::Result& result : program_.results()) ++readers_[result.value.at()];
}

const Node* NodeFuser::sole(ValueId value, OpKind kind) const {
  if (!value.valid() || value.at() >= readers_.size() || readers_[value.at()] != 1) return nullptr;
  const NodeId producer = program_.value(value).producer;
  if (!producer.valid() || program_.node(producer).kind != kind || program_.value(value).output != 0)
    return nullptr;
  return &program_.node(producer);
}

NodeId NodeFuser::append(NodeId anchor, OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                         const std::string& name) {
  OpBuilder builder(program_);
  builder.set_region(program_.node(anchor).region);
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
