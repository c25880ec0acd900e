#include "exec/cpu/products/thin_product_dots.h"

#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>

#include "exec/cpu/products/thin_product.h"

namespace shoehorn::cpu {

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512bf16")
HWY_DIAGNOSTICS(push)
#if HWY_COMPILER_GCC_ACTUAL
// GCC 12 finds the registers uninitialized that its own intrinsics leave undefined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace {

constexpr int64_t kHalves = 32;  // elements of a register
constexpr int64_t kFloats = 16;

__m512 dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

uint16_t to_half(float value) {
  const __m128bh half = _mm_cvtneps_pbh(_mm_set_ss(value));
  return static_cast<uint16_t>(_mm_cvtsi128_si32(reinterpret_cast<__m128i>(half)));
}

// The first `count` elements of a register, at most.
__mmask32 first_halves(int64_t count) {
  return count >= kHalves ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}
__mmask16 first_floats(int64_t count) {
  return static_cast<__mmask16>(count >= kFloats ? 0xffff : (1 << std::max<int64_t>(0, count)) - 1);
}

// The same part of the next block's rows. Its lines come one by one from each of several rows, in which a Zen 5 sees no
// pattern: without it the loops take up to twice as long.
template <int kRows>
void prefetch(const uint16_t* first, int64_t stride) {
  for (int row = 0; row < kRows; ++row)
    _mm_prefetch(reinterpret_cast<const char*>(first + row * stride), _MM_HINT_T0);
}

// ---- kColumns
//
// Loops over a block are unrolled by pragma, here and below: else GCC keeps the sums in memory.

template <int kRows, int kColumns>
void columns_block(const DotColumns& g, const uint16_t* a, const uint16_t* b, uint16_t* c) {
  __m512 sums[kRows][kColumns];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < g.terms; i += kHalves) {
    const __mmask32 mask = first_halves(g.terms - i);
    prefetch<kRows>(a + kRows * g.terms + i, g.terms);
    __m512i of_a[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) of_a[row] = _mm512_maskz_loadu_epi16(mask, a + row * g.terms + i);
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column) {
      const __m512i of_b = _mm512_maskz_loadu_epi16(mask, b + column * g.terms + i);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) sums[row][column] = dot(sums[row][column], of_a[row], of_b);
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int column = 0; column < kColumns; ++column)
      c[row * g.thin + column] = to_half(_mm512_reduce_add_ps(sums[row][column]));
  }
}

template <int kRows>
void columns_rows(const DotColumns& g, int64_t row) {
  const uint16_t* a = g.a + row * g.terms;
  uint16_t* c = g.c + row * g.thin;
  int64_t column = 0;
  for (; column + 8 <= g.thin; column += 8) columns_block<kRows, 8>(g, a, g.b + column * g.terms, c + column);
  for (; column + 4 <= g.thin; column += 4) columns_block<kRows, 4>(g, a, g.b + column * g.terms, c + column);
  for (; column < g.thin; ++column) columns_block<kRows, 1>(g, a, g.b + column * g.terms, c + column);
}

// ---- kTerms

Bfloat16Pair pair_of(uint16_t first, uint16_t second) {
  return static_cast<Bfloat16Pair>(first) | static_cast<Bfloat16Pair>(second) << 16;
}

__m512 widen(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <int kRows>
void terms_rows(const DotTerms& g, int64_t first) {
  const int64_t pairs = (g.thin + 1) / 2;
  Bfloat16Pair a[kRows][kMostFewTerms / 2];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
    const uint16_t* from = g.a + (first + row) * g.thin;
    for (int64_t i = 0; i < pairs; ++i)
      a[row][i] = pair_of(from[2 * i], 2 * i + 1 < g.thin ? from[2 * i + 1] : uint16_t{0});
  }
  for (int64_t column = 0; column < g.columns; column += kHalves) {
    const int64_t left = g.columns - column;
    const __mmask32 mask = first_halves(left);
    const __mmask16 low_mask = first_floats(left);
    const __mmask16 high_mask = first_floats(left - kFloats);
    uint16_t* c = g.c + first * g.columns + column;
    prefetch<kRows>(c + kRows * g.columns, g.columns);
    __m512 low[kRows];
    __m512 high[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const __m512i before =
          g.accumulate ? _mm512_maskz_loadu_epi16(mask, c + row * g.columns) : _mm512_setzero_si512();
      low[row] = widen(_mm512_castsi512_si256(before));
      high[row] = widen(_mm512_extracti64x4_epi64(before, 1));
    }
    for (int64_t i = 0; i < pairs; ++i) {
      const Bfloat16Pair* b = g.b + i * g.columns + column;
      const __m512i low_b = _mm512_maskz_loadu_epi32(low_mask, b);
      const __m512i high_b = _mm512_maskz_loadu_epi32(high_mask, b + kFloats);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const __m512i of_a = _mm512_set1_epi32(static_cast<int>(a[row][i]));
        low[row] = dot(low[row], of_a, low_b);
        high[row] = dot(high[row], of_a, high_b);
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high[row], low[row]));
      _mm512_mask_storeu_epi16(c + row * g.columns, mask, halves);
    }
  }
}

// ---- kSums

// Elements of two rows by turns: of the first 16 columns, or of the next.
__m512i interleave(__m512i first, __m512i second, int column) {
  const __m512i ramp = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i of_first = _mm512_add_epi32(ramp, _mm512_set1_epi32(column));
  const __m512i of_second = _mm512_slli_epi32(_mm512_add_epi32(of_first, _mm512_set1_epi32(kHalves)), 16);
  return _mm512_permutex2var_epi16(first, _mm512_or_si512(of_first, of_second), second);
}

// Adds the products of kPairs pairs of rows to 32 columns of each of the r sums; the second row of the last pair may be
// missing.
template <int kPairs>
void sums_block(const DotSums& g, const uint16_t* wide, const Bfloat16Pair (&low)[kPairs][kMostFewTerms],
                bool is_complete, bool is_first, int64_t column, int64_t end) {
  const __mmask32 mask = first_halves(end - column);
  const __mmask16 low_mask = first_floats(end - column);
  const __mmask16 high_mask = first_floats(end - column - kFloats);
  __m512i low_wide[kPairs];
  __m512i high_wide[kPairs];
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairs; ++pair) {
    const uint16_t* from = wide + 2 * pair * g.columns + column;
    const __mmask32 second_mask = is_complete || pair + 1 < kPairs ? mask : 0;
    prefetch<2>(from + 2 * kPairs * g.columns, g.columns);
    const __m512i first = _mm512_maskz_loadu_epi16(mask, from);
    const __m512i second = _mm512_maskz_loadu_epi16(second_mask, from + g.columns);
    low_wide[pair] = interleave(first, second, 0);
    high_wide[pair] = interleave(first, second, kFloats);
  }
  for (int64_t thin = 0; thin < g.thin; ++thin) {
    float* to = g.sums + thin * g.columns + column;
    __m512 low_sum = _mm512_setzero_ps();
    __m512 high_sum = _mm512_setzero_ps();
    if (!is_first) {
      low_sum = _mm512_maskz_loadu_ps(low_mask, to);
      high_sum = _mm512_maskz_loadu_ps(high_mask, to + kFloats);
    }
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) {
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(low[pair][thin]));
      low_sum = dot(low_sum, factor, low_wide[pair]);
      high_sum = dot(high_sum, factor, high_wide[pair]);
    }
    _mm512_mask_storeu_ps(to, low_mask, low_sum);
    _mm512_mask_storeu_ps(to + kFloats, high_mask, high_sum);
  }
}

template <int kPairs>
void sums_rows(const DotSums& g, int64_t row, int64_t begin, int64_t end) {
  const bool is_complete = row + 2 * kPairs <= g.terms;
  Bfloat16Pair low[kPairs][kMostFewTerms];
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairs; ++pair) {
    const uint16_t* from = g.low + (row + 2 * pair) * g.thin;
    for (int64_t i = 0; i < g.thin; ++i)
      low[pair][i] = pair_of(from[i], is_complete || pair + 1 < kPairs ? from[g.thin + i] : uint16_t{0});
  }
  const bool is_first = row == 0 && !g.accumulate;
  for (int64_t column = begin; column < end; column += kHalves)
    sums_block<kPairs>(g, g.wide + row * g.columns, low, is_complete, is_first, column, end);
}

}  // namespace

void dot_columns(const DotColumns& g, int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + 3 <= end; row += 3) columns_rows<3>(g, row);
  for (; row < end; ++row) columns_rows<1>(g, row);
}

void dot_terms(const DotTerms& g, int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) terms_rows<4>(g, row);
  for (; row < end; ++row) terms_rows<1>(g, row);
}

void dot_sums(const DotSums& g, int64_t begin, int64_t end) {
  int64_t row = 0;
  for (; row + 16 <= g.terms; row += 16) sums_rows<8>(g, row, begin, end);
  for (; row < g.terms; row += 2) sums_rows<1>(g, row, begin, end);
}

HWY_DIAGNOSTICS(pop)
HWY_POP_ATTRIBUTES

}  // namespace shoehorn::cpu
