// Ops that all ranks of a run issue together, in the same order: see passes/data_parallel.h.
#include "base/rounding.h"
#include "ops/op_definitions.h"
#include "ops/ring.h"

namespace shoehorn {

namespace {

int64_t elements_of(const OpContext& context) {
  int64_t elements = 0;
  for (int64_t i = 0; i < std::ssize(context.node.inputs); ++i) elements += context.type(i).shape.elements();
  return elements;
}

Ring ring_of(const OpContext& context) {
  const auto& attributes = context.attributes<CollectiveAttributes>();
  return {elements_of(context), attributes.block_elements, attributes.ranks};
}

// all_reduce: (x, x, …, f32 of any shapes) -> the sums over ranks in their places, and f32[2, chunk], what is sent and
// received at a time: chunks of a whole block, so that nodes may share it.
std::vector<TensorType> infer_all_reduce(const OpContext& context) {
  std::vector<TensorType> types;
  for (int64_t i = 0; i < std::ssize(context.node.inputs); ++i) {
    expect_dtype(context, i, DType::kF32);
    types.push_back(context.type(i));
  }
  const auto& attributes = context.attributes<CollectiveAttributes>();
  types.push_back({DType::kF32, {2, ceil_divide(attributes.block_elements, attributes.ranks)}});
  return types;
}

std::vector<AliasRule> alias_sums(const OpContext& context) {
  std::vector<AliasRule> rules;
  for (int64_t i = 0; i < std::ssize(context.node.inputs); ++i) rules.push_back({i, i, true});
  return rules;
}

// In the rank's own memory: what is sent is copied, what comes is added or copied.
Cost all_reduce_cost(const OpContext& context) {
  const auto elements = static_cast<double>(elements_of(context));
  return {elements, 4 * elements * sizeof(float), 4 * elements * sizeof(float)};
}

}  // namespace

int64_t sent_bytes(const OpContext& context, int64_t rank) {
  if (context.node.kind != OpKind::kAllReduce) return 0;
  return ring_of(context).sent_elements(rank) * static_cast<int64_t>(sizeof(float));
}

std::vector<OpInfo> collective_ops() {
  return {{.kind = OpKind::kAllReduce,
           .name = "all_reduce",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_all_reduce,
           .cost = all_reduce_cost,
           .aliases = alias_sums}};
}

}  // namespace shoehorn
