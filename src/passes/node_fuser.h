// Puts one node in the place of several of a forward program: what the fusions share.
#pragma once

#include <string>
#include <vector>

#include "passes/place_nodes.h"

namespace shoehorn {

class NodeFuser {
 public:
  explicit NodeFuser(Program& program);

  // Nodes that were there before anything was appended since the last place().
  size_t nodes() const { return nodes_; }
  // Nodes and results that read a value.
  int64_t readers(ValueId value) const { return readers_[value.at()]; }
  // The node whose output 0 is `value`, if it is a `kind` and nothing but one node, or one result, reads the value.
  const Node* sole(ValueId value, OpKind kind) const;
  // The same if any number of nodes and results read the value, but none in front of `anchor`.
  const Node* maker(ValueId value, OpKind kind, NodeId anchor) const;

  // Appends a node for what ends at `anchor`, in its region, or in that of another node.
  NodeId append(NodeId anchor, OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                const std::string& name);
  NodeId append(NodeId anchor, const Region& region, OpKind kind, std::vector<ValueId> inputs,
                Attributes attributes, const std::string& name);
  // New nodes go to right behind their anchors; what nobody reads any more goes.
  void place();

 private:
  void count_readers();
  // Whether a value was there before anything was appended.
  bool is_old(ValueId value) const { return value.valid() && value.at() < readers_.size(); }
  const Node* output_of(ValueId value, OpKind kind) const;

  Program& program_;
  size_t nodes_;
  std::vector<int64_t> readers_;       // of each value, nodes and results
  std::vector<NodeId> first_readers_;  // of each value, the first node
  NewNodes made_;
};

}  // namespace shoehorn
