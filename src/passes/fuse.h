// Forward fusion: chains of ops become one kernel each, with a backward of its own.
//
//   fuse_attention        scores ─► softmax ─► dropout ─► ·v         ─►  attention, no T×T matrix stored
//                         q, k, v = x·Wᵀ + b (three products)   ─►  qkv = x·[Wq; Wk; Wv]ᵀ + [bq; bk; bv]
//                         k, v of one value beside a q of another: kv = x·[Wk; Wv]ᵀ + [bk; bv]
//                         without biases: the same; with an adapter's product added before a bias: the same,
//                         and add_columns to its columns
//   fuse_residual_norm    bias ─► dropout ─► + residual ─► LayerNorm  ─►  bias_dropout_residual_layer_norm
//   fuse_bias_activation  bias ─► activation                    ─►  bias_activation
//   fuse_bias             product ─► bias                       ─►  product with bias
//
// Safe because each value inside a chain has one reader. Weights that are trained alike and that nothing else
// reads become one storage, in which the parameters keep their names; others stay as they are, and so do their
// products. Memory: no [A, N, T] probabilities, no copies between the ops of a chain. Time: one
// pass over the bytes. Rounding only: sums inside a kernel may be taken in another order.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void fuse_attention(ProgramFamily& family, const StepOptions& options);
void fuse_residual_norm(ProgramFamily& family, const StepOptions& options);
void fuse_bias_activation(ProgramFamily& family, const StepOptions& options);
void fuse_bias(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
