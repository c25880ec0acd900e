#include "ops/verify.h"

#include <vector>

#include "ops/op_info.h"

namespace shoehorn {

namespace {

std::string node_name(const Program& program, size_t at) {
  const Node& node = program.nodes()[at];
  return fmt::format("program {}: node {} {} '{}' in {}", program.name(), at, op_info(node.kind).name,
                     node.outputs.empty() ? "" : program.value(node.outputs[0]).name,
                     region_name(node.region));
}

void verify_outputs(const Program& program, size_t at) {
  const Node& node = program.nodes()[at];
  const std::vector<TensorType> types = op_info(node.kind).infer({program, node});
  CHECK(types.size() == node.outputs.size(), "{} has {} outputs, its op {}", node_name(program, at),
        node.outputs.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const Value& output = program.value(node.outputs[i]);
    CHECK(output.type == types[i], "{}: output {} is {}, its op gives {}", node_name(program, at), i,
          type_name(output.type), type_name(types[i]));
    CHECK(output.producer.at() == at && output.output == static_cast<int32_t>(i),
          "{}: output {} points elsewhere", node_name(program, at), i);
  }
}

void verify_spaces(const Program& program, size_t at) {
  const Node& node = program.nodes()[at];
  const AddressSpace space = output_space(program, node);
  for (const ValueId output : node.outputs) {
    const Value& value = program.value(output);
    CHECK(value.space == space, "{} makes '{}' in {} memory, its op in {}", node_name(program, at),
          value.name, address_space_name(value.space), address_space_name(space));
    CHECK(!value.storage.valid() || program.state().storage(value.storage).space == space,
          "{} writes a state of {} memory from {}", node_name(program, at),
          address_space_name(program.state().storage(value.storage).space), address_space_name(space));
  }
  if (node.kind == OpKind::kCopy) return;
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const Value& value = program.value(input);
    CHECK(value.space == space, "{} reads '{}' in {} memory and works in {}; copy it first",
          node_name(program, at), value.name, address_space_name(value.space), address_space_name(space));
  }
}

// Of each value; invalid where nobody reads it.
std::vector<NodeId> find_last_readers(const Program& program) {
  std::vector<NodeId> last(program.values().size());
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    for (const ValueId input : program.nodes()[at].inputs) {
      if (input.valid()) last[input.at()] = NodeId{static_cast<int32_t>(at)};
    }
  }
  return last;
}

// What another lane still reads must not be written under it.
void verify_lanes(const Program& program) {
  const std::vector<int64_t> last_running = program.last_running();
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    if (program.nodes()[at].lane == 0) continue;
    for (const ValueId input : program.nodes()[at].inputs) {
      if (!input.valid()) continue;
      const Value& read = program.value(view_root(program, input));
      if (!read.storage.valid()) continue;
      for (size_t later = at + 1; later <= static_cast<size_t>(last_running[at]); ++later) {
        for (const ValueId output : program.nodes()[later].outputs) {
          CHECK(program.value(output).storage != read.storage,
                "{} overwrites '{}', which lane {} may still read; wait for node {} first",
                node_name(program, later), read.name, program.nodes()[at].lane, at);
        }
      }
    }
  }
}

}  // namespace

ValueId view_root(const Program& program, ValueId value) {
  while (program.value(value).producer.valid()) {
    const Node& node = program.node(program.value(value).producer);
    if (node.kind != OpKind::kView) break;
    value = node.inputs[0];
  }
  return value;
}

void verify(const Program& program) {
  program.state().verify_parameters();
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    for (const ValueId input : program.nodes()[at].inputs) {
      CHECK(!input.valid() || input.at() < program.values().size(), "{} reads a value that does not exist",
            node_name(program, at));
    }
  }
  std::vector<int32_t> newest_version(program.state().storages().size(), 0);
  const auto newest = [&newest_version](StorageId storage) -> int32_t& {
    return newest_version[storage.at()];
  };
  const std::vector<NodeId> last_readers = find_last_readers(program);
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      CHECK(input.at() < program.values().size(), "{} reads a value that does not exist",
            node_name(program, at));
      const Value& value = program.value(input);
      CHECK(value.producer.valid() ? value.producer.at() < at : value.storage.valid() && value.version == 0,
            "{} reads '{}' before it is made", node_name(program, at), value.name);
      CHECK(value.producer.valid() || value.type == program.state_type(value.storage),
            "{} reads '{}' as {}, its storage is {}", node_name(program, at), value.name,
            type_name(value.type), type_name(program.state_type(value.storage)));
      const Value& root = program.value(view_root(program, input));
      if (root.storage.valid()) {
        CHECK(root.version == newest(root.storage),
              "{} reads version {} of '{}' after version {} was written", node_name(program, at),
              root.version, root.name, newest(root.storage));
      }
    }
    verify_outputs(program, at);
    verify_spaces(program, at);
    for (const ValueId id : node.outputs) {
      const Value& output = program.value(id);
      if (!output.storage.valid()) continue;
      CHECK(output.version == newest(output.storage) + 1, "{} writes version {} of '{}', the newest is {}",
            node_name(program, at), output.version, output.name, newest(output.storage));
      CHECK(output.type.bytes() == program.state().storage(output.storage).type.bytes(),
            "{} writes '{}' in another size", node_name(program, at), output.name);
    }
    for (const AliasRule& rule : alias_rules(program, node)) {
      if (!rule.required || node.kind == OpKind::kView) continue;
      const Value& input = program.value(node.inputs[static_cast<size_t>(rule.input)]);
      const Value& output = program.value(node.outputs[static_cast<size_t>(rule.output)]);
      CHECK(input.type.bytes() == output.type.bytes(), "{}: output {} cannot lie in input {}",
            node_name(program, at), rule.output, rule.input);
      const NodeId last_reader = last_readers[node.inputs[static_cast<size_t>(rule.input)].at()];
      CHECK(input.storage.valid() || last_reader.at() == at, "{} overwrites '{}', which node {} reads later",
            node_name(program, at), input.name, last_reader.at());
      if (!input.storage.valid() && !output.storage.valid()) continue;
      CHECK(output.storage == input.storage && output.version == input.version + 1,
            "{}: output {} is not the next version of its state '{}'", node_name(program, at), rule.output,
            input.name);
    }
    for (const ValueId id : node.outputs) {
      if (program.value(id).storage.valid()) newest(program.value(id).storage) = program.value(id).version;
    }
  }
  verify_lanes(program);
  for (const Program::Result& result : program.results()) {
    CHECK(result.value.valid() && result.value.at() < program.values().size(),
          "program {}: result '{}' does not exist", program.name(), result.name);
  }
}

}  // namespace shoehorn
