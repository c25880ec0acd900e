// The loops of thin_product.h for bfloat16, in dot products of pairs (AVX-512 BF16): twice the rate of fp32, and nothing is
// widened. The instruction is that of the library's products: it takes subnormal operands and results for zero.
// All of it needs has_fast_bf16_dots() (exec/cpu/simd/bf16_dots.h).
// Private to thin_product*.cc.
#pragma once

#include <cstdint>

namespace shoehorn::cpu {

// Two bfloat16, the first in the lower half. An odd number of elements ends in a pair with a zero.
using Bfloat16Pair = uint32_t;

// C[M, r] = A[M, K]·B[r, K]ᵀ, of rows [begin, end).
struct DotColumns {
  int64_t thin;
  int64_t terms;
  const uint16_t* a;
  const uint16_t* b;
  uint16_t* c;
};
void dot_columns(const DotColumns& arguments, int64_t begin, int64_t end);

// C[M, N] = A[M, r]·B[r, N], or += …, of rows [begin, end).
struct DotTerms {
  int64_t thin;
  int64_t columns;
  const uint16_t* a;
  const Bfloat16Pair* b;  // [⌈r / 2⌉, N]: pairs of rows
  uint16_t* c;
  bool accumulate;
};
void dot_terms(const DotTerms& arguments, int64_t begin, int64_t end);

// sums[r, N] = L[K, r]ᵀ·W[K, N], or += …, of columns [begin, end).
struct DotSums {
  int64_t thin;
  int64_t columns;
  int64_t terms;
  const uint16_t* low;
  const uint16_t* wide;
  float* sums;
  bool accumulate;
};
void dot_sums(const DotSums& arguments, int64_t begin, int64_t end);

}  // namespace shoehorn::cpu
