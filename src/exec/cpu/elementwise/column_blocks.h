// Repacks a product's right operand B[K, N] into the layouts that oneDNN's products on AVX-512 read fastest: blocks of 64
// columns one after another, each with its rows contiguous. A block of 16-bit elements has them in pairs: two rows side by
// side, as dot products of pairs take them. The library's own reorders take longer than these: that of pairs three to five
// times as long (Zen 5).
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

inline constexpr int64_t kBlockPairs = 16;  // the number of pairs of rows per block is a multiple of this

struct ColumnPairBlocks {
  int64_t k;
  int64_t n;
  bool transposed;     // B is stored [N, K]
  int64_t row_stride;  // elements from one stored row to the next; at least a row's length
  const uint16_t* b;   // of any type of 16 bits
  uint16_t* blocks;    // [ceil(N / 64), K rounded up to 32, over 2, 64, 2]; zeros behind K and N
};

// Nothing is allocated; OpenMP threads.
void make_column_pair_blocks(const ColumnPairBlocks& arguments);

}  // namespace shoehorn::cpu
