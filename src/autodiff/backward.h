// Appends the backward of a forward program to it.
//
// The nodes are walked once, last to first; each op's gradient rule appends the nodes that make its inputs'
// gradients. Contributions of several uses are added in the order of the walk, explicitly, so that no
// scheduler reassociates them.
#pragma once

#include <vector>

#include "graph/program.h"

namespace shoehorn {

struct ParameterGradient {
  StorageId storage;
  ValueId gradient;  // fp32, in the storage's shape
};

// The gradient of `loss` for every trainable storage the program reads, in the order of the storages. `seed`, f32[1],
// is the gradient of the loss itself; invalid: one, which is for the output of a loss op. Appended nodes have
// phase kBackward and the layer and component of the node they come from. Throws UserError naming a trainable
// parameter that the loss does not depend on, or an op that has no backward.
std::vector<ParameterGradient> append_backward(Program& program, ValueId loss, ValueId seed = {});

}  // namespace shoehorn
