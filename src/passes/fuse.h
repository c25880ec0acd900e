// Forward fusion: a chain of ops becomes one kernel, with a backward of its own.
//
//   fuse_norm_rotary      RMSNorm of heads ─► rotary  ─►  rms_norm_rotary
//   fuse_residual_norm    bias ─► dropout ─► + residual ─► LayerNorm  ─►  bias_dropout_residual_layer_norm
//                                          + residual ─► RMSNorm    ─►  residual_rms_norm
//   fuse_gated_activation activation of a gate ─► · up                ─►  gated_activation
//   fuse_bias_activation  bias ─► activation                          ─►  bias_activation
//   fuse_bias             product ─► bias                             ─►  product with bias
//   fuse_vocabulary_loss  product ─► cross_entropy                    ─►  linear_cross_entropy, of a vocabulary
//
// Which chains there are, what becomes of their inputs and which of these passes puts the op in its place are facts of
// the op that stands for the chain (FusedChain of ops/op_info.h): a fused op that is added there is used, and nothing
// here changes. The chain that ends in attention is fuse_attention.h's.
//
// Safe because each value inside a chain has one reader or is an output of the op (the sum in front of a norm, which
// pre-norm blocks read again), and no input of it is left out. Memory: no copies between the
// ops of a chain. Time: one pass over the bytes. Rounding only: sums inside a kernel may be taken in another order.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void fuse_norm_rotary(ProgramFamily& family, const StepOptions& options);
void fuse_residual_norm(ProgramFamily& family, const StepOptions& options);
void fuse_gated_activation(ProgramFamily& family, const StepOptions& options);
void fuse_bias_activation(ProgramFamily& family, const StepOptions& options);
void fuse_bias(ProgramFamily& family, const StepOptions& options);
void fuse_vocabulary_loss(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
