#include "passes/gather_early.h"

#include <map>

#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

class Narrower {
 public:
  Narrower(Program& program, BatchInputs& batch) : program_(program), batch_(batch) {}

  void run() {
    const size_t nodes = program_.nodes().size();
    for (size_t i = 0; i < nodes; ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      if (program_.node(id).kind == OpKind::kGatherRows) narrow_for(id);
    }
    if (made_.empty()) return;
    place_before(program_, nodes, made_);
    program_.remove_dead_nodes();
  }

 private:
  // How many of a node's first inputs have the rows of its output; 0 where the node mixes rows.
  size_t row_inputs(const Node& node) const {
    switch (node.kind) {
      case OpKind::kAdd:
        return 2;
      case OpKind::kBiasAdd:
      case OpKind::kActivation:
      case OpKind::kLayerNorm:
      case OpKind::kScale:
        return 1;
      case OpKind::kMatmul:
        return std::get<MatmulAttributes>(node.attributes).transpose_a ? 0 : 1;
      case OpKind::kDropout:
        return reads(node, 2, BatchColumn::kTokenSample) && reads(node, 3, BatchColumn::kPositionIds) ? 1 : 0;
      default:
        return 0;
    }
  }
  bool is_column(ValueId value, BatchColumn column) const {
    const StorageId storage = program_.value(value).storage;
    return storage.valid() && storage == batch_.find(column);
  }
  bool reads(const Node& node, size_t input, BatchColumn column) const {
    return is_column(node.inputs[input], column);
  }

  // Whether every reader of a value wants rows `index` only: it gathers them, or makes of them what is itself
  // wanted so.
  bool is_wanted_narrow(ValueId value, ValueId index) {
    const auto [known, is_new] = wanted_.try_emplace(value, false);
    if (is_new) known->second = finds_only_narrow_readers(value, index);
    return known->second;
  }
  bool finds_only_narrow_readers(ValueId value, ValueId index) {
    for (const Program::Result& result : program_.results()) {
      if (result.value == value) return false;
    }
    for (const NodeId id : readers_[value.at()]) {
      const Node& reader = program_.node(id);
      if (reader.kind == OpKind::kGatherRows && reader.inputs[0] == value && reader.inputs[1] == index)
        continue;
      const size_t rows = row_inputs(reader);
      if (rows == 0) return false;
      for (size_t i = rows; i < reader.inputs.size(); ++i) {
        if (reader.inputs[i] == value) return false;
      }
      if (!is_wanted_narrow(reader.outputs[0], index)) return false;
    }
    return true;
  }

  void narrow_for(NodeId gather) {
    const Node node = program_.node(gather);
    const ValueId index = node.inputs[1];
    if (!is_column(index, BatchColumn::kSequenceStart)) return;
    readers_ = program_.readers();
    wanted_.clear();
    anchor_ = gather;
    if (!can_narrow(node.inputs[0], index)) return;
    program_.replace_uses(node.outputs[0], narrow(node.inputs[0], index, node.region));
  }

  bool can_narrow(ValueId value, ValueId index) {
    const NodeId producer = program_.value(value).producer;
    return producer.valid() && row_inputs(program_.node(producer)) > 0 && is_wanted_narrow(value, index);
  }

  // Rows `index` of a value, for a reader in `region`: made of rows of what it is made of, or gathered.
  ValueId narrow(ValueId value, ValueId index, const Region& region) {
    if (const auto known = narrowed_.find(value); known != narrowed_.end()) return known->second;
    OpBuilder builder(program_);
    NodeId made;
    if (can_narrow(value, index)) {
      Node node = program_.node(program_.value(value).producer);
      const size_t rows = row_inputs(node);
      for (size_t i = 0; i < rows; ++i) node.inputs[i] = narrow(node.inputs[i], index, node.region);
      if (node.kind == OpKind::kDropout) {
        node.inputs[2] = program_.read_state(batch_.ask(BatchColumn::kSequenceSample));
        node.inputs[3] = program_.read_state(batch_.ask(BatchColumn::kSequencePosition));
      }
      builder.set_region(node.region);
      const std::string name = program_.value(value).name;  // the table of values grows meanwhile
      made = builder.add(node.kind, node.inputs, node.attributes, name);
    } else {
      builder.set_region(region);
      made = builder.add(OpKind::kGatherRows, {value, index}, {}, "first_tokens");
    }
    made_[anchor_].push_back(made);
    return narrowed_[value] = program_.node(made).outputs[0];
  }

  Program& program_;
  BatchInputs& batch_;
  NodeId anchor_;  // the gather that moves
  std::vector<std::vector<NodeId>> readers_;
  std::map<ValueId, bool> wanted_;       // is_wanted_narrow, of this gather
  std::map<ValueId, ValueId> narrowed_;  // of all gathers: they have one index
  NewNodes made_;                        // to stand before their gather
};

}  // namespace

void gather_early(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) {
    Narrower(program, family.batch_of(program)).run();
  }
}

}  // namespace shoehorn
