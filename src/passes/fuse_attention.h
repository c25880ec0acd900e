// Attention in one kernel, and the products in front of it in one.
//
//   scores ─► softmax ─► dropout ─► ·v          ─►  attention, no T×T matrix stored
//   q, k, v = x·Wᵀ + b (three products)        ─►  qkv = x·[Wq; Wk; Wv]ᵀ + [bq; bk; bv]
//   k, v of one value beside a q of another     ─►  kv = x·[Wk; Wv]ᵀ + [bk; bv]
//   without biases                              ─►  the same
//   with an adapter's product before a bias     ─►  the same, and add_columns to its columns
//   q, k, v taken from one value's columns      ─►  attention reads that value; nothing is copied apart
//   q and k turned by rotary                    ─►  one rotary over their columns, in place
//
// Safe because each value inside the chain has one reader. Weights that are trained alike and that nothing else
// reads become one storage, in which the parameters keep their names; others stay as they are, and so do their
// products. Memory: no [A, N, T] probabilities. Time: the product of several is one, and scores stay in the cache.
// Rounding only: sums inside a kernel may be taken in another order.
//
// Not a row of the op table as other fusions (passes/fuse.h): which of three forms it takes depends on which
// products merge, and that on how their weights are trained, on who else reads them and on the other programs of the
// family. It makes several nodes and changes the state table. What stands between a product and attention besides (a
// norm of each head, as Qwen3 has it) keeps the product apart.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void fuse_attention(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
