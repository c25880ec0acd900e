// A weight in the type of its products: a cast that mixed_precision makes of a master, once in a program, for
// all of the weight's products; its role is that of a weight. Passes neither copy nor recompute it, and the
// gradient of what it gives is the master's. A model's own casts are temporaries like any other value.
#pragma once

#include "graph/program.h"

namespace shoehorn {

inline bool is_weight_cast(const Program& program, const Node& node) {
  return node.kind == OpKind::kCast && program.value(node.outputs[0]).role == Role::kWeight;
}

// Whether such a cast makes the value.
inline bool is_weight_cast(const Program& program, ValueId value) {
  const NodeId producer = program.value(value).producer;
  return producer.valid() && is_weight_cast(program, program.node(producer));
}

}  // namespace shoehorn
