// Mixed precision: products read and write 16-bit floats and accumulate in fp32; everything else computes in
// fp32.
//
//   before   y f32 = matmul(x f32, W f32)
//   bf16     y bf16 = matmul(x bf16, W bf16)          W = W.hi (bf16) · 2^16 + W.rest (16 bit, signed)
//   fp16     y fp16 = matmul(x fp16, cast(W) fp16)    W f32
//
// bf16: the fp32 master of each weight that a product reads is stored as a bf16 high half and a 16-bit rest.
// Products read the high half in place; the update reads and writes both. So a weight is never cast, takes 4
// bytes in all and loses no bit. A frozen weight is the high half only, since nothing would read the rest.
// fp16: its exponent differs, so no half of an fp32 number is an fp16 number. A weight is cast once per
// optimizer step, before its first product, and the cast lives until its last product. Weights that only
// row-wise kernels read (biases, LayerNorm, embedding tables) stay fp32. Activations are stored in 16 bits.
// Statistics, log-sum-exp, logits, loss and the gradients of parameters are fp32.
//
// Without master weights, a bf16 weight is those 2 bytes only, and so is an embedding table. Updates compute
// in fp32 and round stochastically. Biases and LayerNorm stay fp32: a thousandth of the bytes.
//
// The evaluation program of a training run reads the weights as training does, or, if evaluation_precision is
// set, casts them in every batch. A run that only evaluates has no masters: weights that products read are
// stored in 16 bits, and with evaluation_precision embedding tables are too.
//
// Memory: half of the activations; fp16 adds 2 bytes per weight while the casts live. Time: native products
// if the machine has them. Changes numerics: products read operands with 8 significant bits (bf16: relative
// error 2^-9) or 11 (fp16: 2^-12; infinite beyond 65504, zero below 2^-24); they add in fp32.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void mixed_precision(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
