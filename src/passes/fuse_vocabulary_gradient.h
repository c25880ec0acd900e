// Loss and gradients of a vocabulary in one sweep: the node that computes a language model's loss becomes one that
// computes its gradients too, so that the logits are made once.
//
//   before   linear_cross_entropy (logits) ─► loss … linear_cross_entropy_grad (logits again, dx, dW)    4 products
//   after    linear_cross_entropy_with_grad (logits, dx, dW) ─► loss                                     3 products
//
// The gradient rule cannot do this: it appends to the program's end, behind whatever reads the loss. Here the new node
// stands where the loss stood. It needs the gradient of the loss there: 1, or a state (the loss scale). A loss whose
// gradient a node computes keeps its two nodes, and so does a weight whose gradients other nodes made before.
//
// Safe because nothing between the two nodes writes their inputs. Memory: the rows that the logits are made of die here,
// and the gradient of the weight is there from here on, as it is from the beginning of the backward in any case. Time: a
// product of all rows by the vocabulary, a quarter of the four; of three where the weight is frozen. Rounding only: the
// chunks of the sums are others.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void fuse_vocabulary_gradient(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
