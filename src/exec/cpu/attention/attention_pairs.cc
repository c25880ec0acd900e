#include "exec/cpu/attention/attention_pairs.h"

#include <immintrin.h>

#include <algorithm>

namespace shoehorn::cpu {
namespace {

constexpr int64_t kLanes = 16;

__attribute__((target("avx512f,avx512bf16"))) inline __m256i narrow(__m512 x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

// Lane j holds (first[j], second[j]). Forms with a mask of all lanes, since GCC 12 takes the others' own headers for
// reading something uninitialized (its bug 105593).
__attribute__((target("avx512f,avx512bf16"))) inline __m512i pairs_of(__m512 first, __m512 second) {
  constexpr __mmask16 kAll = 0xffff;
  const __m512i low = _mm512_maskz_cvtepu16_epi32(kAll, narrow(first));
  const __m512i high = _mm512_maskz_cvtepu16_epi32(kAll, narrow(second));
  return _mm512_or_si512(low, _mm512_maskz_slli_epi32(kAll, high, 16));
}

__mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1U << std::min(count, kLanes)) - 1U);
}

}  // namespace

template <int kRows, int kVectors>
__attribute__((target("avx512f,avx512bf16"))) void pair_block_product(const Bf16Pair* a, int64_t a_row,
                                                                      int64_t a_step, const Bf16Pair* b,
                                                                      int64_t b_step, float* c, int64_t c_row,
                                                                      int64_t k, bool accumulate) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = accumulate ? _mm512_loadu_ps(c + i * c_row + j * kLanes) : _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < k; ++p) {
    __m512i right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) right[j] = _mm512_loadu_si512(b + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const __m512i left = _mm512_set1_epi32(std::bit_cast<int>(a[i * a_row]));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], reinterpret_cast<__m512bh>(left),
                                     reinterpret_cast<__m512bh>(right[j]));
      }
    }
    a += a_step;
    b += b_step;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(c + i * c_row + j * kLanes, sum[i][j]);
  }
}

#define SHOEHORN_PAIR_BLOCKS(rows)                                                                       \
  template void pair_block_product<rows, 1>(const Bf16Pair*, int64_t, int64_t, const Bf16Pair*, int64_t, \
                                            float*, int64_t, int64_t, bool);                             \
  template void pair_block_product<rows, 2>(const Bf16Pair*, int64_t, int64_t, const Bf16Pair*, int64_t, \
                                            float*, int64_t, int64_t, bool);                             \
  template void pair_block_product<rows, 3>(const Bf16Pair*, int64_t, int64_t, const Bf16Pair*, int64_t, \
                                            float*, int64_t, int64_t, bool);                             \
  template void pair_block_product<rows, 4>(const Bf16Pair*, int64_t, int64_t, const Bf16Pair*, int64_t, \
                                            float*, int64_t, int64_t, bool)
SHOEHORN_PAIR_BLOCKS(1);
SHOEHORN_PAIR_BLOCKS(2);
SHOEHORN_PAIR_BLOCKS(3);
SHOEHORN_PAIR_BLOCKS(4);
SHOEHORN_PAIR_BLOCKS(5);
SHOEHORN_PAIR_BLOCKS(6);
#undef SHOEHORN_PAIR_BLOCKS

__attribute__((target("avx512f,avx512bf16"))) void narrow_in_place(float* x, int64_t count) {
  auto* out = reinterpret_cast<bfloat16*>(x);
  for (int64_t i = 0; i < count; i += kLanes) {
    const __m512 wide = _mm512_maskz_loadu_ps(first_lanes(count - i), x + i);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), narrow(wide));
  }
}

__attribute__((target("avx512f,avx512bf16"))) void narrow_gradients_in_place(float* probabilities,
                                                                             float* gradients, int64_t stride,
                                                                             bool has_second, int64_t count) {
  auto* first_row = reinterpret_cast<bfloat16*>(probabilities + stride);
  auto* second_row = reinterpret_cast<bfloat16*>(gradients + stride);
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 inside = first_lanes(count - i);
    const __mmask16 inside_second = has_second ? inside : __mmask16{0};
    const __m512 p0 = _mm512_maskz_loadu_ps(inside, probabilities + i);
    const __m512 p1 = _mm512_maskz_loadu_ps(inside_second, probabilities + stride + i);
    const __m512 g0 = _mm512_maskz_loadu_ps(inside, gradients + i);
    const __m512 g1 = _mm512_maskz_loadu_ps(inside_second, gradients + stride + i);
    _mm512_storeu_si512(probabilities + i, pairs_of(p0, p1));
    _mm512_storeu_si512(gradients + i, pairs_of(g0, g1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(first_row + i), narrow(g0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(second_row + i), narrow(g1));
  }
}

}  // namespace shoehorn::cpu
