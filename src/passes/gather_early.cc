#include "passes/gather_early.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/op_builder.h"
#include "ops/op_info.h"
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
  // The inputs whose rows the node's output is made of; none where it mixes rows.
  std::vector<int64_t> row_inputs(const Node& node) const {
    const OpInfo& info = op_info(node.kind);
    return info.row_inputs == nullptr ? std::vector<int64_t>{} : info.row_inputs({program_, node});
  }
  // The column of the batch that a value is.
  std::optional<BatchColumn> column_of(ValueId value) const {
    const StorageId storage = program_.value(value).storage;
    if (!storage.valid() || program_.state().storage(storage).role != Role::kInput) return std::nullopt;
    return batch_.column_of(storage);
  }

  bool is_of_first_tokens(ValueId index) const { return column_of(index) == BatchColumn::kSequenceStart; }
  bool is_of_last_tokens(ValueId index) const {
    const NodeId producer = program_.value(index).producer;
    return producer.valid() && program_.node(producer).kind == OpKind::kLastRows;
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
      const std::vector<int64_t> rows = row_inputs(reader);
      if (rows.empty()) return false;
      for (int64_t i = 0; i < std::ssize(reader.inputs); ++i) {
        const bool is_row = std::find(rows.begin(), rows.end(), i) != rows.end();
        if (!is_row && reader.inputs[static_cast<size_t>(i)] == value) return false;
      }
      if (!is_wanted_narrow(reader.outputs[0], index)) return false;
    }
    return true;
  }

  void narrow_for(NodeId gather) {
    const Node node = program_.node(gather);
    const ValueId index = node.inputs[1];
    if (!is_of_first_tokens(index) && !is_of_last_tokens(index)) return;
    readers_ = program_.readers();
    wanted_.clear();
    anchor_ = gather;
    if (!can_narrow(node.inputs[0], index)) return;
    program_.replace_uses(node.outputs[0], narrow(node.inputs[0], index, node.region));
  }

  bool can_narrow(ValueId value, ValueId index) {
    const NodeId producer = program_.value(value).producer;
    return producer.valid() && !row_inputs(program_.node(producer)).empty() && is_wanted_narrow(value, index);
  }

  // Rows `index` of a value, for a reader in `region`: made of rows of what it is made of, or gathered.
  ValueId narrow(ValueId value, ValueId index, const Region& region) {
    if (const auto known = narrowed_.find({value, index}); known != narrowed_.end()) return known->second;
    if (const auto column = column_of(value); column && is_of_first_tokens(index)) {
      if (const auto of_first = batch_column_info(*column).of_first_tokens)
        return program_.read_state(batch_.request(*of_first));
    }
    OpBuilder builder(program_);
    NodeId made;
    if (can_narrow(value, index)) {
      Node node = program_.node(program_.value(value).producer);
      for (const int64_t row : row_inputs(node)) {
        ValueId& input = node.inputs[static_cast<size_t>(row)];
        input = narrow(input, index, node.region);
      }
      builder.set_region(node.region);
      const std::string name = program_.value(value).name;  // the table of values grows meanwhile
      made = builder.add(node.kind, node.inputs, node.attributes, name);
    } else {
      builder.set_region(region);
      made = builder.add(OpKind::kGatherRows, {value, index}, {},
                         is_of_first_tokens(index) ? "first_tokens" : "last_tokens");
    }
    made_[anchor_].push_back(made);
    return narrowed_[{value, index}] = program_.node(made).outputs[0];
  }

  Program& program_;
  BatchInputs& batch_;
  NodeId anchor_;  // the gather that moves
  Readers readers_;
  std::map<ValueId, bool> wanted_;                           // is_wanted_narrow, of this gather
  std::map<std::pair<ValueId, ValueId>, ValueId> narrowed_;  // of a value and an index, for all gathers
  NewNodes made_;                                            // to stand before their gather
};

}  // namespace

void gather_early(ProgramFamily& family, const StepOptions&) {
  for (Program& program : family.programs) {
    Narrower(program, family.batch_of(program)).run();
  }
}

}  // namespace shoehorn
