#include "passes/mixed_precision.h"

#include <algorithm>
#include <map>

#include "ops/op_builder.h"
#include "ops/op_info.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

DType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return DType::kF32;
    case Precision::kBfloat16:
      return DType::kBF16;
    case Precision::kFloat16:
      return DType::kF16;
  }
  throw InternalError("[mixed_precision] unknown precision");
}

bool is_weight(const Program& program, ValueId value) {
  return program.value(value).storage.valid();
}

bool is_trained(const StateTable& state, StorageId weight) {
  const std::vector<ParameterId> parameters = state.parameters_of(weight);
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](ParameterId id) { return state.parameter(id).trainable; });
}

// Splits the master of a weight into high half and rest, once a storage. What is not trained needs no rest.
void split_master(StateTable& state, StorageId weight) {
  if (state.storage(weight).type.dtype == DType::kBF16) return;
  if (!is_trained(state, weight)) {
    state.storage(weight).type.dtype = DType::kBF16;
    return;
  }
  Storage rest = state.storage(weight);
  rest.name += ".rest";
  rest.type.dtype = DType::kI16;
  rest.role = Role::kMasterWeight;
  const StorageId rest_id = state.add_storage(std::move(rest));
  state.storage(weight).type.dtype = DType::kBF16;
  for (const ParameterId id : state.parameters_of(weight)) state.parameter(id).rest = rest_id;
}

// The weights that products read become 16-bit values: through split masters or casts, or, where they have no
// masters, stored so.
class WeightTyper {
 public:
  // Without masters, weights are stored in 16 bits. `types_tables`: so are embedding tables; not with
  // masters.
  WeightTyper(Program& program, DType dtype, bool keeps_masters, bool types_tables)
      : program_(program), dtype_(dtype), keeps_masters_(keeps_masters), types_tables_(types_tables) {}

  void run() {
    const size_t nodes = program_.nodes().size();
    for (size_t i = 0; i < nodes; ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      const std::optional<WeightInput> weight = op_info(program_.node(id).kind).weight;
      if (weight && (types_tables_ || !weight->is_table)) type_weight(id, static_cast<size_t>(weight->input));
    }
    place_before(program_, nodes, casts_before_);
  }

 private:
  void type_weight(NodeId reader, size_t input) {
    const ValueId weight = program_.node(reader).inputs[input];
    // An operand that is no weight is a product's or a norm's output, and gets its type with them.
    if (!is_weight(program_, weight)) return;
    StateTable& state = program_.state();
    const StorageId storage = program_.value(weight).storage;
    if (!keeps_masters_) {
      state.storage(storage).type.dtype = dtype_;
    } else if (program_.traits().trains && dtype_ == DType::kBF16) {
      split_master(state, storage);
    } else if (state.storage(storage).type.dtype != dtype_) {
      program_.node(reader).inputs[input] = cast_of(weight, reader);
    }
  }

  ValueId cast_of(ValueId weight, NodeId reader) {
    if (const auto known = casts_.find(weight); known != casts_.end()) return known->second;
    Storage& storage = program_.state().storage(program_.value(weight).storage);
    OpBuilder builder(program_);
    builder.set_region(program_.node(reader).region);
    const NodeId cast = builder.add(OpKind::kCast, {weight}, CastAttributes{dtype_},
                                    storage.name + "." + std::string(dtype_name(dtype_)));
    const ValueId value = program_.node(cast).outputs[0];
    program_.value(value).role = Role::kWeight;
    if (program_.traits().trains) storage.role = Role::kMasterWeight;
    casts_before_[reader].push_back(cast);
    return casts_[weight] = value;
  }

  Program& program_;
  DType dtype_;
  bool keeps_masters_;
  bool types_tables_;
  std::map<ValueId, ValueId> casts_;
  NewNodes casts_before_;
};

void type_outputs(Program& program, DType dtype) {
  for (Node& node : program.nodes()) {
    const OpInfo& info = op_info(node.kind);
    if (info.set_output != nullptr) info.set_output(node.attributes, dtype);
  }
  // A logits product keeps its fp32 sums: they go to the loss unrounded.
  if (const NodeId logits = logits_product(program); logits.valid())
    op_info(program.node(logits).kind).set_output(program.node(logits).attributes, DType::kF32);
}

void infer_again(Program& program) {
  for (Value& value : program.values()) {
    if (value.storage.valid() && !value.producer.valid()) value.type = program.state_type(value.storage);
  }
  for (const Node& node : program.nodes()) {
    const std::vector<TensorType> types = op_info(node.kind).infer({program, node});
    for (size_t i = 0; i < types.size(); ++i) program.value(node.outputs[i]).type = types[i];
  }
}

}  // namespace

void mixed_precision(ProgramFamily& family, const StepOptions& options) {
  const bool trains = family.find(ProgramKind::kTrainStep).valid();
  const bool keeps_masters = trains && options.master_weights == MasterWeights::kFloat32;
  const bool types_tables = trains ? !keeps_masters : options.evaluation_precision.has_value();
  for (Program& program : family.programs) {
    const Precision precision = program.traits().trains
                                    ? options.precision
                                    : options.evaluation_precision.value_or(options.precision);
    if (precision == Precision::kFloat32) continue;
    WeightTyper(program, dtype_of(precision), keeps_masters, types_tables).run();
    type_outputs(program, dtype_of(precision));
  }
  for (Program& program : family.programs) infer_again(program);
}

}  // namespace shoehorn
