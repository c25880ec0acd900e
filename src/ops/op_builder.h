// Appends nodes to a program. It checks the number and types of inputs, infers output types, binds outputs of
// updates to their storages, and sets the region.
//
// bind_output() also binds an output to a storage that the node overwrites without reading it: version 1 of
// that storage.
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

  // UserError naming the op if the inputs do not fit it; InternalError if the op is misused.
  NodeId add(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name);

  // Appends a node and returns one of its outputs.
  ValueId value(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name,
                int64_t output = 0) {
    return program_.node(add(kind, std::move(inputs), std::move(attributes), name))
        .outputs[static_cast<size_t>(output)];
  }

  // Makes the value lie in the storage, as its next version. The sizes must agree.
  void bind_output(ValueId value, StorageId storage);

 private:
  Program& program_;
  Region region_;
};

// Appends the same op with the same inputs; returns its output 0.
ValueId repeat(OpBuilder& builder, const Node& node);

}  // namespace shoehorn
