#include "passes/mixed_precision.h"

#include "ops/op_info.h"

namespace shoehorn {

namespace {

// Splits the master of a weight into high half and rest, once a storage.
void split_master(StateTable& state, StorageId weight) {
  if (state.storage(weight).type.dtype == DType::kBF16) return;
  Storage rest = state.storage(weight);
  rest.name += ".rest";
  rest.type.dtype = DType::kI16;
  rest.role = Role::kMasterWeight;
  const StorageId rest_id = state.add_storage(std::move(rest));
  state.storage(weight).type.dtype = DType::kBF16;
  for (const ParameterId id : state.parameters_of(weight)) state.parameter(id).rest = rest_id;
}

void retype(Program& program) {
  for (Node& node : program.nodes()) {
    if (auto* matmul = std::get_if<MatmulAttributes>(&node.attributes)) {
      // An operand that is no weight is a product's or a norm's output, and becomes bf16 with them.
      const StorageId weight = program.value(node.inputs[1]).storage;
      if (weight.valid()) split_master(program.state(), weight);
      matmul->output = DType::kBF16;
    } else if (auto* embedding = std::get_if<EmbeddingAttributes>(&node.attributes)) {
      embedding->output = DType::kBF16;
    }
  }
  // A logits product keeps its fp32 sums: they go to the loss unrounded.
  for (Node& node : program.nodes()) {
    if (node.kind != OpKind::kCrossEntropy) continue;
    NodeId producer = program.value(node.inputs[0]).producer;
    while (producer.valid() && program.node(producer).kind != OpKind::kMatmul) {
      producer = program.value(program.node(producer).inputs[0]).producer;
    }
    if (producer.valid()) std::get<MatmulAttributes>(program.node(producer).attributes).output = DType::kF32;
  }
  for (Value& value : program.values()) {
    if (value.storage.valid() && !value.producer.valid())
      value.type = program.state().storage(value.storage).type;
  }
  for (const Node& node : program.nodes()) {
    const std::vector<TensorType> types = op_info(node.kind).infer({program, node});
    for (size_t i = 0; i < types.size(); ++i) program.value(node.outputs[i]).type = types[i];
  }
}

}  // namespace

void mixed_precision(ProgramFamily& family, const StepOptions& options) {
  if (options.precision != Precision::kBfloat16) return;
  for (Program& program : family.programs) retype(program);
}

}  // namespace shoehorn
