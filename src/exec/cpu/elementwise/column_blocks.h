// A product's right operand B[K, N] in the form in which oneDNN's fp32 products on AVX-512 take it fastest:
// blocks of 64 columns one after the other, a block's rows together. The library's own move into this form
// takes longer than this one.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

inline constexpr int64_t kBlockColumns = 64;
inline constexpr int64_t kBlockRows = 16;  // a block has a multiple of so many rows

struct ColumnBlocks {
  DType dtype;  // of B: float32, bfloat16 or float16 (checked: InternalError)
  int64_t k;
  int64_t n;
  bool transposed;     // B is stored [N, K]
  int64_t row_stride;  // elements between the rows that are stored; at least as many as a row has
  const void* b;
  float* blocks;  // [ceil(N / 64), K up to a multiple of 16, 64]; zero behind K and N
};

// Nothing is allocated; OpenMP threads.
void make_column_blocks(const ColumnBlocks& arguments);

}  // namespace shoehorn::cpu
