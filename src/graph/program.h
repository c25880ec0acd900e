// A program: a list of nodes in SSA form over values. Nodes are issued in the order of the list.
//
// Lane 0 computes, one node at a time. A node of another lane (a copy between address spaces, a collective)
// is issued at its place in the list, once lane 0 has finished everything before it. It runs beside the nodes
// that follow, and the first node of lane 0 that reads its results waits for it. Each lane runs its own nodes
// in order.
//
// A value is not a storage: values are immutable, and the planner decides where each lies. State (weights,
// optimizer moments) is read as version 0 of a storage in the StateTable; a node that updates it consumes
// version k and yields version k+1 in the same bytes. Names are for people; nothing parses them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/attributes.h"
#include "graph/ids.h"
#include "graph/op_kind.h"
#include "graph/program_kind.h"
#include "graph/state_table.h"
#include "graph/types.h"

namespace shoehorn {

// A value of a program: made once by a node, or read from state.
struct Value {
  TensorType type;
  Role role = Role::kTemporary;
  NodeId producer;     // invalid: read from state
  int32_t output = 0;  // which output of the producer
  StorageId storage;   // valid: a version of this storage
  int32_t version = 0;
  std::string name;
  AddressSpace space = AddressSpace::kDevice;
};

// One call of an op: its inputs, outputs and attributes, and its place in the model and in the step.
struct Node {
  OpKind kind = OpKind::kCopy;
  std::vector<ValueId> inputs;  // an invalid id is an absent optional input
  std::vector<ValueId> outputs;
  Attributes attributes;
  Region region;
  int32_t lane = 0;
  // The node that this one recomputes for the backward; invalid otherwise. Passes never merge the two.
  NodeId clone_of;
  // The name of the pass that made the node or moved it to its place; "model" for nodes of the capture. A
  // copy for another micro-batch keeps the name. Empty until the pass pipeline sets it; a static string.
  std::string_view pass;
};

// A run-time count: how many of a dimension's maximum are present in this run.
struct Count {
  std::string name;
  int64_t maximum = 0;
  int64_t multiple = 1;  // every value of it is a multiple of this
};

// For each value of a program the nodes that read it, in their order; a node that reads it twice stands there twice.
class Readers {
 public:
  Readers() = default;
  Readers(size_t values, const std::vector<Node>& nodes);
  std::span<const NodeId> operator[](size_t value) const {
    return std::span(nodes_).subspan(first_[value], first_[value + 1] - first_[value]);
  }

 private:
  std::vector<size_t> first_;  // of each value, and behind the last
  std::vector<NodeId> nodes_;
};

class Program {
 public:
  Program() = default;
  // `bucket`: which of the capacities of its kind it is built for (passes/program_family.h).
  Program(ProgramKind kind, StateTable* state, int32_t bucket = 0);

  ProgramKind kind() const { return kind_; }
  void set_kind(ProgramKind kind);
  int32_t bucket() const { return bucket_; }
  const ProgramTraits& traits() const { return traits_of(kind_); }
  // Of its kind, and of its bucket where that is not the first: "evaluate.bucket_1".
  std::string_view name() const { return name_; }
  // The shared table. Owned by whoever built the family; outlives its programs.
  StateTable& state() const { return *state_; }

  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  std::vector<Value>& values() { return values_; }
  const std::vector<Count>& counts() const { return counts_; }
  const Node& node(NodeId id) const { return nodes_[id.at()]; }
  Node& node(NodeId id) { return nodes_[id.at()]; }
  const Value& value(ValueId id) const { return values_[id.at()]; }
  Value& value(ValueId id) { return values_[id.at()]; }
  const TensorType& type(ValueId id) const { return values_[id.at()].type; }

  CountId add_count(std::string name, int64_t maximum, int64_t multiple = 1);
  ValueId add_value(Value value);
  // The value that reads version 0 of a storage; there is one per storage.
  ValueId read_state(StorageId storage);
  // Makes the value lie in the storage, as this version of it, with its role.
  void set_version(ValueId value, StorageId storage, int32_t version);
  // The value lies in no storage any more.
  void unset_version(ValueId value);
  // Of the values that lie in the storage the one of the newest version above 0; invalid where there is none.
  ValueId newest_version(StorageId storage) const;
  // The storage as this program reads it: its type, but that a dimension with a count has the count's maximum.
  // So a program of a smaller bucket reads the front of an input that is as large as any bucket needs.
  TensorType state_type(StorageId storage) const;
  // Appends a node whose outputs have the given types. Prefer OpBuilder of ops/, which knows types, roles and
  // aliases.
  NodeId add_node(Node node, const std::vector<TensorType>& output_types, const std::string& name);

  // Values that the caller reads after a run, by name: "loss", "logits", …
  struct Result {
    std::string name;
    ValueId value;
  };
  const std::vector<Result>& results() const { return results_; }
  std::vector<Result>& results() { return results_; }
  void add_result(std::string name, ValueId value) { results_.push_back({std::move(name), value}); }
  ValueId result(std::string_view name) const;  // invalid if absent

  // For each node the last position at which it may still be running. On lane 0 that is its own; on another
  // lane the position before the first node that waits for it or for a later node of its lane; the end if
  // nothing waits.
  std::vector<int64_t> last_running() const;

  // Reorders the nodes and renumbers them. `order` is a permutation, or a subset if the missing nodes are
  // dead.
  void reorder(const std::vector<NodeId>& order);
  // Makes every reader of `from` read `to` instead (also results).
  void replace_uses(ValueId from, ValueId to);
  // The same for many values in one pass over the program; to[i] takes the place of from[i]. No value of `to` is in `from`.
  void replace_uses(std::span<const ValueId> from, std::span<const ValueId> to);
  // As the program stands: it does not follow what changes.
  Readers readers() const { return {values_.size(), nodes_}; }
  // Removes nodes whose outputs nobody reads and that are no results and update no state. Returns how many.
  int64_t remove_dead_nodes();

 private:
  // What nodes read, and the results.
  template <typename Visit>
  void for_each_use(const Visit& visit) {
    for (Node& node : nodes_) {
      for (ValueId& input : node.inputs) visit(input);
    }
    for (Result& result : results_) visit(result.value);
  }

  ProgramKind kind_ = ProgramKind::kTrainStep;
  int32_t bucket_ = 0;
  std::string name_;
  StateTable* state_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::unordered_map<StorageId, ValueId> state_reads_;      // the value of each storage before any update
  std::unordered_map<StorageId, ValueId> newest_versions_;  // of those that nodes make
  std::vector<Count> counts_;
  std::vector<Result> results_;
};

}  // namespace shoehorn
