#include "graph/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace shoehorn {

Readers::Readers(size_t values, const std::vector<Node>& nodes) : first_(values + 1, 0) {
  const auto for_each_read = [&nodes](const auto& visit) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const ValueId input : nodes[i].inputs) {
        if (input.valid()) visit(input, NodeId{static_cast<int32_t>(i)});
      }
    }
  };
  for_each_read([&](ValueId value, NodeId) { ++first_[value.at() + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  nodes_.resize(first_.back());
  std::vector<size_t> next(first_.begin(), first_.end() - 1);
  for_each_read([&](ValueId value, NodeId reader) { nodes_[next[value.at()]++] = reader; });
}

Program::Program(ProgramKind kind, StateTable* state, int32_t bucket) : bucket_(bucket), state_(state) {
  set_kind(kind);
}

void Program::set_kind(ProgramKind kind) {
  kind_ = kind;
  name_ = traits().name;
  if (bucket_ > 0) name_ += fmt::format(".bucket_{}", bucket_);
}

CountId Program::add_count(std::string name, int64_t maximum, int64_t multiple) {
  counts_.push_back({std::move(name), maximum, multiple});
  return CountId{static_cast<int32_t>(counts_.size()) - 1};
}

ValueId Program::add_value(Value value) {
  values_.push_back(std::move(value));
  return ValueId{static_cast<int32_t>(values_.size()) - 1};
}

ValueId Program::read_state(StorageId storage) {
  if (const auto found = state_reads_.find(storage); found != state_reads_.end()) return found->second;
  const Storage& source = state_->storage(storage);
  Value value;
  value.type = state_type(storage);
  value.role = source.role;
  value.storage = storage;
  value.name = source.name;
  value.space = source.space;
  return state_reads_[storage] = add_value(std::move(value));
}

void Program::set_version(ValueId value, StorageId storage, int32_t version) {
  Value& set = values_[value.at()];
  set.storage = storage;
  set.version = version;
  set.role = state_->storage(storage).role;
  ValueId& newest = newest_versions_[storage];
  if (!newest.valid() || version > values_[newest.at()].version) newest = value;
}

void Program::unset_version(ValueId value) {
  const StorageId storage = values_[value.at()].storage;
  values_[value.at()].storage = {};
  if (newest_version(storage) != value) return;
  newest_versions_.erase(storage);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].storage == storage && values_[i].version > 0)
      set_version(ValueId{static_cast<int32_t>(i)}, storage, values_[i].version);
  }
}

ValueId Program::newest_version(StorageId storage) const {
  const auto found = newest_versions_.find(storage);
  return found == newest_versions_.end() ? ValueId{} : found->second;
}

TensorType Program::state_type(StorageId storage) const {
  TensorType type = state_->storage(storage).type;
  std::vector<Dim> dims = type.shape.dims();
  for (Dim& dim : dims) {
    if (dim.count.valid() && dim.count.at() < counts_.size()) dim.maximum = counts_[dim.count.at()].maximum;
  }
  type.shape = Shape(std::move(dims));
  return type;
}

NodeId Program::add_node(Node node, const std::vector<TensorType>& output_types, const std::string& name) {
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  node.outputs.clear();
  for (size_t i = 0; i < output_types.size(); ++i) {
    Value value;
    value.type = output_types[i];
    value.producer = id;
    value.output = static_cast<int32_t>(i);
    value.name = i == 0 ? name : fmt::format("{}.{}", name, i);
    node.outputs.push_back(add_value(std::move(value)));
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Program::result(std::string_view name) const {
  for (const Result& result : results_) {
    if (result.name == name) return result.value;
  }
  return {};
}

void Program::reorder(const std::vector<NodeId>& order) {
  std::vector<Node> ordered;
  std::vector<NodeId> moved(nodes_.size());
  ordered.reserve(order.size());
  for (const NodeId id : order) {
    CHECK(!moved[id.at()].valid(), "node {} stands twice in the order", id.index);
    moved[id.at()] = NodeId{static_cast<int32_t>(ordered.size())};
    ordered.push_back(std::move(nodes_[id.at()]));
  }
  for (Node& node : ordered) {
    if (node.clone_of.valid()) node.clone_of = moved[node.clone_of.at()];
  }
  for (Value& value : values_) {
    if (value.producer.valid()) value.producer = moved[value.producer.at()];
  }
  nodes_ = std::move(ordered);
}

void Program::replace_uses(ValueId from, ValueId to) {
  for_each_use([&](ValueId& value) {
    if (value == from) value = to;
  });
}

void Program::replace_uses(std::span<const ValueId> from, std::span<const ValueId> to) {
  CHECK(from.size() == to.size(), "{} values cannot take the place of {}", to.size(), from.size());
  std::vector<ValueId> replacements(values_.size());
  for (size_t i = 0; i < from.size(); ++i) replacements[from[i].at()] = to[i];
  for (const ValueId value : to)
    CHECK(!replacements[value.at()].valid(), "'{}' is replaced and replaces", values_[value.at()].name);
  for_each_use([&](ValueId& value) {
    if (value.valid() && replacements[value.at()].valid()) value = replacements[value.at()];
  });
}

std::vector<int64_t> Program::last_running() const {
  const auto positions = static_cast<int64_t>(nodes_.size());
  std::vector<int64_t> last(nodes_.size(), positions - 1);
  for (int64_t at = positions; at-- > 0;) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    if (node.lane != 0) continue;
    last[static_cast<size_t>(at)] = at;
    if (node.kind == OpKind::kView) continue;  // reads nothing itself
    for (const ValueId input : node.inputs) {
      NodeId producer = input.valid() ? value(input).producer : NodeId{};
      while (producer.valid() && nodes_[producer.at()].kind == OpKind::kView)
        producer = value(nodes_[producer.at()].inputs[0]).producer;
      if (producer.valid() && nodes_[producer.at()].lane != 0) last[producer.at()] = at - 1;
    }
  }
  // Who waits for a node has waited for all before it on that lane.
  std::unordered_map<int32_t, int64_t> next;
  for (size_t at = nodes_.size(); at-- > 0;) {
    if (nodes_[at].lane == 0) continue;
    int64_t& later = next.try_emplace(nodes_[at].lane, positions - 1).first->second;
    later = last[at] = std::min(last[at], later);
  }
  return last;
}

int64_t Program::remove_dead_nodes() {
  std::vector<bool> needed(values_.size(), false);
  for (const Result& result : results_) {
    if (result.value.valid()) needed[result.value.at()] = true;
  }
  std::vector<NodeId> kept;
  for (size_t i = nodes_.size(); i-- > 0;) {
    bool alive = false;
    for (const ValueId output : nodes_[i].outputs) {
      alive = alive || needed[output.at()] || values_[output.at()].storage.valid();
    }
    if (!alive) continue;
    for (const ValueId input : nodes_[i].inputs) {
      if (input.valid()) needed[input.at()] = true;
    }
    kept.push_back(NodeId{static_cast<int32_t>(i)});
  }
  const auto removed = static_cast<int64_t>(nodes_.size() - kept.size());
  if (removed > 0) reorder({kept.rbegin(), kept.rend()});
  return removed;
}

}  // namespace shoehorn
