// The loops of thin_product.h in fp32 arithmetic, for every type: operands are widened where they are read. Private to
// thin_product*.cc.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

// C[M, r] = A[M, K]·B[r, K]ᵀ, of rows [begin, end).
struct ThinColumns {
  DType dtype;
  int64_t thin;
  int64_t terms;
  const void* a;
  const void* b;
  void* c;
};
void thin_columns(const ThinColumns& arguments, int64_t begin, int64_t end);

// C[M, N] = A[M, r]·B[r, N], or += …, of rows [begin, end).
struct ThinTerms {
  DType dtype;
  int64_t thin;
  int64_t columns;
  const void* a;
  const void* b;
  void* c;
  bool accumulate;
};
void thin_terms(const ThinTerms& arguments, int64_t begin, int64_t end);

// sums[r, N] = L[K, r]ᵀ·W[K, N], or += …, of columns [begin, end).
struct ThinSums {
  DType dtype;
  int64_t thin;
  int64_t columns;
  int64_t terms;
  const void* low;
  const void* wide;
  float* sums;
  bool accumulate;
};
void thin_sums(const ThinSums& arguments, int64_t begin, int64_t end);

}  // namespace shoehorn::cpu
