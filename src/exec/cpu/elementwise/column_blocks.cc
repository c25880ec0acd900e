#include "exec/cpu/elementwise/column_blocks.h"

#include <algorithm>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/column_blocks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Of a stored row, the vector from `column` on; zeros behind `columns`.
template <class T>
HWY_INLINE FloatVector load_within(const T* row, int64_t column, int64_t columns) {
  if (column + float_lanes() <= columns) return load(row + column);
  if (column >= columns) return set(0.0F);
  return load(row + column, FirstLanes{columns - column});
}

// Rows [row, row + 16) of the block that begins with `column`, of a B that is stored [K, N].
template <class T>
HWY_INLINE void copy_tile(const ColumnBlocks& g, int64_t row, int64_t column, float* tile) {
  const int64_t columns = std::min(kBlockColumns, g.n - column);
  for (int64_t r = 0; r < kBlockRows; ++r) {
    const T* from = static_cast<const T*>(g.b) + (row + r) * g.row_stride + column;
    const int64_t live = row + r < g.k ? columns : 0;
    for (int64_t i = 0; i < kBlockColumns; i += float_lanes())
      store(load_within(from, i, live), tile + r * kBlockColumns + i);
  }
}

using FourTag = hn::FixedTag<float, 4>;
using FourVector = hn::Vec<FourTag>;

HWY_INLINE FourVector load_four(const float* from) {
  return hn::LoadU(FourTag(), from);
}
HWY_INLINE FourVector load_four(const bfloat16* from) {
  const hn::Rebind<uint16_t, FourTag> halves;
  const hn::RebindToUnsigned<FourTag> words;
  return hn::BitCast(FourTag(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, &from->bits))));
}
HWY_INLINE FourVector load_four(const float16* from) {
  const hn::Rebind<uint16_t, FourTag> halves;
  const hn::Rebind<hwy::float16_t, FourTag> floats;
  return hn::PromoteTo(FourTag(), hn::BitCast(floats, hn::LoadU(halves, &from->bits)));
}

// Four elements of every fourth row: as many rows as a vector has blocks of four lanes.
template <class T>
HWY_INLINE FloatVector load_fours(const T* from, int64_t stride) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<FloatTag> half;
  const auto lower = hn::Combine(half, load_four(from + 4 * stride), load_four(from));
  const auto upper = hn::Combine(half, load_four(from + 12 * stride), load_four(from + 8 * stride));
  return hn::Combine(FloatTag(), upper, lower);
#else
  return hn::Combine(FloatTag(), load_four(from + 4 * stride), load_four(from));
#endif
}

// Four elements of as many rows as a vector has lanes become four vectors.
template <class T>
HWY_INLINE void transpose_fours(const T* from, int64_t stride, float* to) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> pairs;
  const FloatVector r0 = load_fours(from, stride), r1 = load_fours(from + stride, stride);
  const FloatVector r2 = load_fours(from + 2 * stride, stride), r3 = load_fours(from + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), to);
  store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), to + kBlockColumns);
  store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), to + 2 * kBlockColumns);
  store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), to + 3 * kBlockColumns);
}

// The same of a B that is stored [N, K].
template <class T>
HWY_INLINE void transpose_tile(const ColumnBlocks& g, int64_t row, int64_t column, float* tile) {
  const T* from = static_cast<const T*>(g.b) + column * g.row_stride + row;
  const int64_t columns = std::min(kBlockColumns, g.n - column);
  const int64_t rows = std::min(kBlockRows, g.k - row);
  if (columns == kBlockColumns && rows == kBlockRows) {
    for (int64_t i = 0; i < kBlockColumns; i += float_lanes()) {
      for (int64_t r = 0; r < kBlockRows; r += 4)
        transpose_fours(from + i * g.row_stride + r, g.row_stride, tile + r * kBlockColumns + i);
    }
    return;
  }
  std::fill_n(tile, kBlockRows * kBlockColumns, 0.0F);
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t r = 0; r < rows; ++r)
      tile[r * kBlockColumns + i] = read_element(from + i * g.row_stride + r);
  }
}

// Rows `row` and `row` + 1, 64 columns from `column` on, of a B of 16 bits that is stored [K, N].
HWY_INLINE void interleave_rows(const ColumnPairBlocks& g, int64_t row, int64_t column, uint32_t* pairs) {
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::Rebind<uint16_t, FloatTag> halves;
  const uint16_t* from = g.b + row * g.row_stride + column;
  for (int64_t i = 0; i < kBlockColumns; i += float_lanes()) {
    const auto first = hn::PromoteTo(words, hn::LoadU(halves, from + i));
    const auto second = hn::PromoteTo(words, hn::LoadU(halves, from + g.row_stride + i));
    hn::StoreU(hn::Or(first, hn::ShiftLeft<16>(second)), words, pairs + i);
  }
}

// 16 pairs of rows from `row` on, of the block that begins with `column`.
HWY_INLINE void pair_tile(const ColumnPairBlocks& g, int64_t row, int64_t column, uint32_t* tile) {
  const int64_t columns = std::min(kBlockColumns, g.n - column);
  const int64_t rows = std::min(2 * kBlockPairs, g.k - row);
  const bool is_whole = columns == kBlockColumns && rows == 2 * kBlockPairs;
  if (is_whole && !g.transposed) {
    for (int64_t i = 0; i < kBlockPairs; ++i)
      interleave_rows(g, row + 2 * i, column, tile + i * kBlockColumns);
    return;
  }
  if (is_whole && g.row_stride % 2 == 0) {
    // A pair is an element of 32 bits, which the moves below do not look into.
    const int64_t stride = g.row_stride / 2;
    const auto* from = reinterpret_cast<const float*>(g.b + column * g.row_stride + row);
    for (int64_t i = 0; i < kBlockColumns; i += float_lanes()) {
      for (int64_t pair = 0; pair < kBlockPairs; pair += 4) {
        transpose_fours(from + i * stride + pair, stride,
                        reinterpret_cast<float*>(tile + pair * kBlockColumns + i));
      }
    }
    return;
  }
  std::fill_n(tile, kBlockPairs * kBlockColumns, 0U);
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint32_t bits =
          g.b[g.transposed ? (column + i) * g.row_stride + row + r : (row + r) * g.row_stride + column + i];
      tile[r / 2 * kBlockColumns + i] |= bits << (r % 2 * 16);
    }
  }
}

// Tiles of 16 pairs of rows of a block, numbered in the order in which B is stored.
void make_pair_tiles(const ColumnPairBlocks& g, int64_t begin, int64_t end) {
  const int64_t blocks = ceil_divide(g.n, kBlockColumns);
  const int64_t tiles = ceil_divide(g.k, 2 * kBlockPairs);  // of a block
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = g.transposed ? i / tiles : i % blocks;
    const int64_t tile = g.transposed ? i % tiles : i / blocks;
    pair_tile(g, tile * 2 * kBlockPairs, block * kBlockColumns,
              reinterpret_cast<uint32_t*>(g.blocks) + (block * tiles + tile) * kBlockPairs * kBlockColumns);
  }
}

// Tiles of 16 rows of a block, numbered in the order in which B is stored.
void make_tiles(const ColumnBlocks& g, int64_t begin, int64_t end) {
  const int64_t blocks = ceil_divide(g.n, kBlockColumns);
  const int64_t tiles = ceil_divide(g.k, kBlockRows);  // of a block
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = g.transposed ? i / tiles : i % blocks;
      const int64_t tile = g.transposed ? i % tiles : i / blocks;
      float* to = g.blocks + (block * tiles + tile) * kBlockRows * kBlockColumns;
      if (g.transposed) {
        transpose_tile<T>(g, tile * kBlockRows, block * kBlockColumns, to);
      } else {
        copy_tile<T>(g, tile * kBlockRows, block * kBlockColumns, to);
      }
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(make_tiles);
HWY_EXPORT(make_pair_tiles);

void make_column_blocks(const ColumnBlocks& arguments) {
  check_storage(arguments.dtype, "column_blocks");
  const int64_t tiles = ceil_divide(arguments.n, kBlockColumns) * ceil_divide(arguments.k, kBlockRows);
  parallel_ranges(tiles, row_grain(kBlockRows * kBlockColumns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(make_tiles)(arguments, begin, end);
  });
}

void make_column_pair_blocks(const ColumnPairBlocks& arguments) {
  const int64_t tiles = ceil_divide(arguments.n, kBlockColumns) * ceil_divide(arguments.k, 2 * kBlockPairs);
  parallel_ranges(tiles, row_grain(2 * kBlockPairs * kBlockColumns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(make_pair_tiles)(arguments, begin, end);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
