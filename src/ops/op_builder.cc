#include "ops/op_builder.h"

#include "ops/op_info.h"

namespace shoehorn {

NodeId OpBuilder::add(OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                      const std::string& name) {
  const OpInfo& info = op_info(kind);
  const auto count = static_cast<int64_t>(inputs.size());
  CHECK(count >= info.min_inputs && (info.max_inputs < 0 || count <= info.max_inputs),
        "{} takes {} to {} inputs, got {}", info.name, info.min_inputs, info.max_inputs, count);
  for (int64_t i = 0; i < info.min_inputs; ++i) {
    CHECK(inputs[static_cast<size_t>(i)].valid(), "input {} of {} '{}' is absent", i, info.name, name);
  }
  Node node;
  node.kind = kind;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.region = region_;
  const std::vector<TensorType> types = info.infer({program_, node});
  const NodeId id = program_.add_node(std::move(node), types, name);
  for (const ValueId output : program_.node(id).outputs)
    program_.value(output).space = output_space(program_, program_.node(id));
  for (const AliasRule& rule : alias_rules(program_, program_.node(id))) {
    const Value& source = program_.value(program_.node(id).inputs[static_cast<size_t>(rule.input)]);
    if (!rule.required || kind == OpKind::kView || !source.storage.valid()) continue;
    const ValueId updated = program_.node(id).outputs[static_cast<size_t>(rule.output)];
    program_.set_version(updated, source.storage, source.version + 1);
  }
  return id;
}

void OpBuilder::bind_output(ValueId value, StorageId storage) {
  const ValueId newest = program_.newest_version(storage);
  int32_t version = newest.valid() ? program_.value(newest).version : 0;
  // A sum that grows in place lies in one buffer from its first term on: all of it goes to the storage.
  std::vector<ValueId> chain = {value};
  for (bool grows = true; grows;) {
    grows = false;
    const Value& last = program_.value(chain.back());
    CHECK(last.producer.valid() && !last.storage.valid(), "'{}' cannot be bound to a state", last.name);
    const Node& node = program_.node(last.producer);
    for (const AliasRule& rule : alias_rules(program_, node)) {
      if (!rule.required || rule.output != last.output) continue;
      chain.push_back(node.inputs[static_cast<size_t>(rule.input)]);
      grows = true;
    }
  }
  for (auto bound = chain.rbegin(); bound != chain.rend(); ++bound)
    program_.set_version(*bound, storage, ++version);
}

ValueId repeat(OpBuilder& builder, const Node& node) {
  const std::string name = builder.program().value(node.outputs[0]).name + ".again";
  return builder.value(node.kind, node.inputs, node.attributes, name);
}

}  // namespace shoehorn
