// bf16 mixed precision: products read and write bfloat16, accumulate in fp32; everything else computes in
// fp32.
//
//   before   y f32 = matmul(x f32, W f32)        after   y bf16 = matmul(x bf16, W bf16)
//                                                        W = W.hi (bf16) · 2^16 + W.rest (16 bit, signed)
//
// The fp32 master of each weight that a product reads is stored as a bf16 high half and a 16-bit rest:
// products read the high half as it is, the update reads and writes both. So a weight is never cast, takes 4
// bytes in all and loses no bit. Weights that only row-wise kernels read (biases, LayerNorm, embedding
// tables) stay fp32. Activations are stored in bfloat16; statistics, log-sum-exp, logits, loss and the
// gradients of parameters are fp32.
//
// Memory: half of the activations. Time: bf16 products where the machine has them. Changes numerics: products
// see operands rounded to 8 bits (relative 2^-9), sums are fp32.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void mixed_precision(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
