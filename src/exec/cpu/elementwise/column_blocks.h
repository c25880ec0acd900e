// Repacks a product's right operand B[K, N] into the layout that oneDNN's fp32 products on AVX-512 read
// fastest: blocks of 64 columns one after another, each with its rows contiguous. The library's own reorder
// takes longer than this.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

inline constexpr int64_t kBlockColumns = 64;
inline constexpr int64_t kBlockRows = 16;  // the number of rows per block is a multiple of this

struct ColumnBlocks {
  DType dtype;  // of B: float32, bfloat16 or float16 (checked: InternalError)
  int64_t k;
  int64_t n;
  bool transposed;     // B is stored [N, K]
  int64_t row_stride;  // elements from one stored row to the next; at least a row's length
  const void* b;
  float* blocks;  // [ceil(N / 64), K rounded up to 16, 64]; zeros behind K and N
};

// Nothing is allocated; OpenMP threads.
void make_column_blocks(const ColumnBlocks& arguments);

}  // namespace shoehorn::cpu
