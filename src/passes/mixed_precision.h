// Mixed precision: products read and write 16-bit floats and accumulate in fp32; everything else computes in
// fp32.
//
//   before   y f32 = matmul(x f32, W f32)
//   bf16     y bf16 = matmul(x bf16, W bf16)          W = W.hi (bf16) · 2^16 + W.rest (16 bit, signed)
//   fp16     y fp16 = matmul(x fp16, cast(W) fp16)    W f32
//
// bf16: the fp32 master of each weight that a product reads is stored as a bf16 high half and a 16-bit rest:
// products read the high half as it is, the update reads and writes both. So a weight is never cast, takes 4
// bytes in all and loses no bit. One that is not trained is its high half alone: nothing would read the rest.
// fp16 has other exponents, so that no half of an fp32 number is one: a weight is cast, once in an optimizer
// step, before its first product, and the cast is a value that lives until its last one. Weights that only
// row-wise kernels read (biases, LayerNorm, embedding tables) stay fp32. Activations are stored in 16 bits;
// statistics, log-sum-exp, logits, loss and the gradients of parameters are fp32.
//
// Without master weights a bf16 weight is those 2 bytes and no more, and so are embedding tables; updates
// compute in fp32 and round stochastically. Biases and LayerNorm stay fp32: a thousandth of the bytes.
//
// The evaluation program of a training run takes the weights as training does, or, where evaluation_precision
// says so, casts them in every batch. A run that only evaluates keeps no master: what products read is
// stored in 16 bits, and with evaluation_precision so are embedding tables.
//
// Memory: half of the activations; fp16 casts are 2 bytes a weight while they live. Time: native products
// where the machine has them. Changes numerics: products see operands rounded to 8 bits (relative 2^-9) or 11
// (2^-12; beyond 65504 infinite, below 2^-24 zero), sums are fp32.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void mixed_precision(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
