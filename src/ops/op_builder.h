// Appends nodes to a program: checks arity and types, infers outputs, binds updated state, marks the region.
//
// A node's output may also be bound to a state that it writes whole, without reading what was there
// (bind_output): version 1 of that storage.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

class OpBuilder {
 public:
  explicit OpBuilder(Program& program) : program_(program) {}

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  const Region& region() const { return region_; }
  void set_region(const Region& region) { region_ = region; }

  // Throws UserError where inputs do not fit the op (naming it), InternalError where the op is misused.
  NodeId add(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name);

  // Output `output` of a new node.
  ValueId value(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name,
                int64_t output = 0) {
    return program_.node(add(kind, std::move(inputs), std::move(attributes), name))
        .outputs[static_cast<size_t>(output)];
  }

  // The value is written straight into the storage, as its next version. Sizes must agree.
  void bind_output(ValueId value, StorageId storage);

 private:
  Program& program_;
  Region region_;
};

// Appends the op of `node` on the same inputs; its output 0.
ValueId repeat(OpBuilder& builder, const Node& node);

}  // namespace shoehorn
