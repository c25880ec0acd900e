// Inside attention: what processors with dot products of bf16 pairs (AVX-512 BF16) compute with. A pair is two
// neighbours along the depth of a product, low element first; each step of a sum adds the products of both, in
// f32. Everything here needs has_fast_bf16_dots() (exec/cpu/simd/bf16_dots.h).
#pragma once

#include <cstdint>

#include "base/bfloat16.h"

namespace shoehorn::cpu {

struct Bf16Pair {
  bfloat16 first;
  bfloat16 second;
};
static_assert(sizeof(Bf16Pair) == sizeof(float));

// C[kRows, 16 · kVectors] = A · B over k pairs, or C += A · B: element (i, p) of A at a[i · a_row + p · a_step],
// (p, j) of B at b[p · b_step + j]. Instantiated for 1 … 6 rows and 1 … 4 vectors.
template <int kRows, int kVectors>
__attribute__((target("avx512f,avx512bf16"))) void pair_block_product(const Bf16Pair* a, int64_t a_row,
                                                                      int64_t a_step, const Bf16Pair* b,
                                                                      int64_t b_step, float* c, int64_t c_row,
                                                                      int64_t k, bool accumulate);

// x [count] becomes bf16, in its own first half; zeros follow up to a whole vector of 16.
void narrow_in_place(float* x, int64_t count);

// Two rows of probabilities and of the gradients of their scores become operands in their own place, with zeros up
// to a whole vector of 16. Row 1 lies `stride` behind row 0; without `has_second` it is taken for zeros.
//   probabilities:          pairs (row 0, row 1) of each column
//   gradients:              likewise
//   probabilities + stride: the gradients of row 0 as bf16
//   gradients + stride:     those of row 1
void narrow_gradients_in_place(float* probabilities, float* gradients, int64_t stride, bool has_second,
                               int64_t count);

}  // namespace shoehorn::cpu
