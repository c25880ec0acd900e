#include "exec/cpu/products/thin_product_loops.h"

#include "exec/cpu/products/thin_product.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/products/thin_product_loops.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

HWY_INLINE FloatVector multiply_add(FloatVector a, FloatVector b, FloatVector sum) {
  return hn::MulAdd(a, b, sum);
}
HWY_INLINE FloatVector multiply_add(Two<FloatVector> a, Two<FloatVector> b, FloatVector sum) {
  return hn::MulAdd(a.second, b.second, hn::MulAdd(a.first, b.first, sum));
}

// The same part of the next block's rows (thin_product_dots.cc).
template <int kRows, class T>
HWY_INLINE void prefetch(const T* first, int64_t stride) {
  for (int row = 0; row < kRows; ++row) hwy::Prefetch(first + row * stride);
}

// A block of C, whose sums stay in registers: for that GCC has to be told to unroll.
template <int kRows, int kColumns, class T>
HWY_INLINE void columns_block(const ThinColumns& g, const T* a, const T* b, T* c) {
  FloatVector sums[kRows][kColumns];
  for (auto& row : sums) {
    for (FloatVector& sum : row) sum = hn::Zero(FloatTag());
  }
  for_columns_in_pairs(0, g.terms, [&](int64_t i, auto lanes) {
    prefetch<kRows>(a + kRows * g.terms + i, g.terms);
    decltype(load(a, lanes)) of_a[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) of_a[row] = load(a + row * g.terms + i, lanes);
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      const auto of_b = load(b + column * g.terms + i, lanes);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row)
        sums[row][column] = multiply_add(of_a[row], of_b, sums[row][column]);
    }
  });
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column)
      write_element(sum_lanes(sums[row][column]), c + row * g.thin + column);
  }
}

template <int kRows, class T>
HWY_INLINE void columns_rows(const ThinColumns& g, int64_t row) {
  const T* a = static_cast<const T*>(g.a) + row * g.terms;
  const T* b = static_cast<const T*>(g.b);
  T* c = static_cast<T*>(g.c) + row * g.thin;
  int64_t column = 0;
  for (; column + 8 <= g.thin; column += 8) columns_block<kRows, 8>(g, a, b + column * g.terms, c + column);
  for (; column + 4 <= g.thin; column += 4) columns_block<kRows, 4>(g, a, b + column * g.terms, c + column);
  for (; column < g.thin; ++column) columns_block<kRows, 1>(g, a, b + column * g.terms, c + column);
}

void columns_of_rows(const ThinColumns& g, int64_t begin, int64_t end) {
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 3 : 1;  // of 32 registers, or of 16
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    int64_t row = begin;
    for (; row + kRows <= end; row += kRows) columns_rows<kRows, T>(g, row);
    for (; row < end; ++row) columns_rows<1, T>(g, row);
  });
}

HWY_INLINE Two<FloatVector> zeros(TwoVectors) {
  return {hn::Zero(FloatTag()), hn::Zero(FloatTag())};
}
template <class Lanes>
HWY_INLINE FloatVector zeros(Lanes) {
  return hn::Zero(FloatTag());
}

// Rows of L as fp32.
template <int kRows, class T>
HWY_INLINE void widen_rows(const T* low, int64_t thin, float* wide) {
  for (int64_t i = 0; i < kRows * thin; ++i) wide[i] = read_element(low + i);
}

template <int kRows, class T>
HWY_INLINE void terms_rows(const ThinTerms& g, int64_t first) {
  float a[kRows * kMostFewTerms];
  widen_rows<kRows>(static_cast<const T*>(g.a) + first * g.thin, g.thin, a);
  const T* b = static_cast<const T*>(g.b);
  T* c = static_cast<T*>(g.c) + first * g.columns;
  for_columns_in_pairs(0, g.columns, [&](int64_t i, auto lanes) {
    prefetch<kRows>(c + kRows * g.columns + i, g.columns);
    decltype(zeros(lanes)) sums[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row)
      sums[row] = g.accumulate ? load(c + row * g.columns + i, lanes) : zeros(lanes);
    for (int64_t term = 0; term < g.thin; ++term) {
      const auto of_b = load(b + term * g.columns + i, lanes);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const FloatVector factor = set(a[row * g.thin + term]);
        sums[row] =
            each([&](FloatVector x, FloatVector sum) { return hn::MulAdd(x, factor, sum); }, of_b, sums[row]);
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) store(sums[row], c + row * g.columns + i, lanes);
  });
}

void terms_of_rows(const ThinTerms& g, int64_t begin, int64_t end) {
  constexpr int kRows = 4;
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    int64_t row = begin;
    for (; row + kRows <= end; row += kRows) terms_rows<kRows, T>(g, row);
    for (; row < end; ++row) terms_rows<1, T>(g, row);
  });
}

// Adds the products of kRows rows to kVectors vectors of each of the r sums.
template <int kRows, int kVectors, class T, class Lanes>
HWY_INLINE void sums_block(const ThinSums& g, const T* wide, const float* low, bool is_first, float* sums,
                           Lanes lanes) {
  const int64_t step = float_lanes();
  prefetch<kRows>(wide + kRows * g.columns, g.columns);
  FloatVector of_wide[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) of_wide[row][v] = load(wide + row * g.columns + v * step, lanes);
  }
  for (int64_t thin = 0; thin < g.thin; ++thin) {
    float* to = sums + thin * g.columns;
    FloatVector sum[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = is_first ? zeros(lanes) : load(to + v * step, lanes);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const FloatVector factor = set(low[row * g.thin + thin]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(of_wide[row][v], factor, sum[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(sum[v], to + v * step, lanes);
  }
}

template <int kRows, class T>
HWY_INLINE void sums_rows(const ThinSums& g, int64_t row, int64_t begin, int64_t end) {
  float low[kRows * kMostFewTerms];
  widen_rows<kRows>(static_cast<const T*>(g.low) + row * g.thin, g.thin, low);
  const T* wide = static_cast<const T*>(g.wide) + row * g.columns;
  const bool is_first = row == 0 && !g.accumulate;
  const int64_t step = float_lanes();
  int64_t column = begin;
  for (; column + 2 * step <= end; column += 2 * step)
    sums_block<kRows, 2>(g, wide + column, low, is_first, g.sums + column, AllLanes{});
  for_columns(column, end, [&](int64_t i, auto lanes) {
    sums_block<kRows, 1>(g, wide + i, low, is_first, g.sums + i, lanes);
  });
}

// Of columns [begin, end).
void sums_of_columns(const ThinSums& g, int64_t begin, int64_t end) {
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    int64_t row = 0;
    for (; row + kRows <= g.terms; row += kRows) sums_rows<kRows, T>(g, row, begin, end);
    for (; row < g.terms; ++row) sums_rows<1, T>(g, row, begin, end);
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(columns_of_rows);
HWY_EXPORT(terms_of_rows);
HWY_EXPORT(sums_of_columns);

}  // namespace

void thin_columns(const ThinColumns& arguments, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(columns_of_rows)(arguments, begin, end);
}

void thin_terms(const ThinTerms& arguments, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(terms_of_rows)(arguments, begin, end);
}

void thin_sums(const ThinSums& arguments, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(sums_of_columns)(arguments, begin, end);
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
