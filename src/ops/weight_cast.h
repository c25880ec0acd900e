// Weight casts. mixed_precision casts an fp32 master to the type of the products, once in a program for all
// products of the weight. The result has the role of a weight; passes neither copy nor recompute it, and its
// gradient is the master's. A cast that a model itself makes is a temporary like any other value.
#pragma once

#include "graph/program.h"

namespace shoehorn {

inline bool is_weight_cast(const Program& program, const Node& node) {
  return node.kind == OpKind::kCast && program.value(node.outputs[0]).role == Role::kWeight;
}

// True if such a cast makes the value.
inline bool is_weight_cast(const Program& program, ValueId value) {
  const NodeId producer = program.value(value).producer;
  return producer.valid() && is_weight_cast(program, program.node(producer));
}

}  // namespace shoehorn
