// Reverse-mode differentiation: appends the backward to a forward program.
//
// It visits the nodes once, last to first. Each op's gradient rule appends the nodes that compute the
// gradients of its inputs. If a value has several uses, explicit add nodes sum their gradients in the order
// of the visit, so the order of summation is fixed.
#pragma once

#include <vector>

#include "graph/program.h"

namespace shoehorn {

struct ParameterGradient {
  StorageId storage;
  ValueId gradient;  // fp32, same shape as the storage
};

// Returns the gradient of `loss` for every trainable storage that the program reads, in the order of the
// storages. `seed`, f32[1], is the gradient of the loss itself; invalid means 1, which only the output of a
// loss op allows. Appended nodes have phase kBackward and the layer and component of the node that they come
// from. UserError naming a trainable parameter that the loss does not depend on, or an op without a gradient.
std::vector<ParameterGradient> append_backward(Program& program, ValueId loss, ValueId seed = {});

}  // namespace shoehorn
