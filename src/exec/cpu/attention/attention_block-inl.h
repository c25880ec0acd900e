// Inside attention: a register-blocked product of small matrices of floats or of bf16 pairs (attention_pairs.h), with
// f32 sums. Included after foreach_target.h; everything lies in shoehorn::cpu::HWY_NAMESPACE::attention.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "exec/cpu/attention/attention_pairs.h"
#include "hwy/highway.h"

#if defined(SHOEHORN_EXEC_CPU_ATTENTION_BLOCK_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_ATTENTION_BLOCK_INL_
#undef SHOEHORN_EXEC_CPU_ATTENTION_BLOCK_INL_
#else
#define SHOEHORN_EXEC_CPU_ATTENTION_BLOCK_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));

// The product kernel keeps kBlockRows × kBlockVectors accumulators in registers: 24 of 32 (AVX-512) or 12 of
// 16 (AVX2), enough to hide the latency of FMA, with few loads for each.
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = kLanes == 16 ? 4 : 2;
// Columns of a panel: the right operand of a product is read in panels of this width.
inline constexpr int64_t kPanel = kBlockVectors * kLanes;
// Depth after which the product moves on to the next panel: what it reads of a panel stays in the first-level
// cache.
inline constexpr int64_t kDepth = 64;

// C[m, n] = A[m, k] · B[k, n], or C += A · B. Columns of B and C are touched up to the next multiple of
// kLanes. Operand is float or Bf16Pair; k counts operands.
template <class Operand>
struct Product {
  const Operand*
      a;  // element (i, p) at a[i * a_row + p * a_step]: a_row and a_step swapped is a transposed operand
  int64_t a_row;
  int64_t a_step;
  const Operand* b;  // element (p, j) at b[p * b_step + (j / kPanel) * b_panel + j % kPanel]
  int64_t b_step;
  int64_t b_panel;
  float* c;  // element (i, j) at c[i * c_row + j]
  int64_t c_row;
  int64_t m;
  int64_t n;
  int64_t k;
  bool accumulate;
};

template <int kRows, int kVectors>
HWY_NOINLINE void block_product(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_step,
                                const float* HWY_RESTRICT b, int64_t b_step, float* HWY_RESTRICT c,
                                int64_t c_row, int64_t k, bool accumulate) {
  const FloatTag d;
  FloatVector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * c_row + j * kLanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < k; ++p) {
    FloatVector right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) right[j] = hn::LoadU(d, b + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const FloatVector left = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
    a += a_step;
    b += b_step;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[i][j], d, c + i * c_row + j * kLanes);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void block_product(const Bf16Pair* a, int64_t a_row, int64_t a_step, const Bf16Pair* b,
                              int64_t b_step, float* c, int64_t c_row, int64_t k, bool accumulate) {
  pair_block_product<kRows, kVectors>(a, a_row, a_step, b, b_step, c, c_row, k, accumulate);
}

// All rows of a panel: groups of kBlockRows rows, then the remaining rows with the kernel for that many.
template <int kVectors, class Operand>
HWY_INLINE void panel_product(const Product<Operand>& x, const Operand* a, const Operand* b, float* c,
                              int64_t k, bool accumulate) {
  int64_t i = 0;
  for (; i + kBlockRows <= x.m; i += kBlockRows) {
    block_product<kBlockRows, kVectors>(a + i * x.a_row, x.a_row, x.a_step, b, x.b_step, c + i * x.c_row,
                                        x.c_row, k, accumulate);
  }
  using Kernel =
      void (*)(const Operand*, int64_t, int64_t, const Operand*, int64_t, float*, int64_t, int64_t, bool);
  constexpr Kernel kRest[kBlockRows] = {nullptr,
                                        &block_product<1, kVectors>,
                                        &block_product<2, kVectors>,
                                        &block_product<3, kVectors>,
                                        &block_product<4, kVectors>,
                                        &block_product<5, kVectors>};
  if (i < x.m)
    kRest[x.m - i](a + i * x.a_row, x.a_row, x.a_step, b, x.b_step, c + i * x.c_row, x.c_row, k, accumulate);
}

template <class Operand>
void multiply(const Product<Operand>& x) {
  for (int64_t p = 0; p < x.k; p += kDepth) {
    const int64_t depth = std::min(kDepth, x.k - p);
    const bool accumulate = x.accumulate || p > 0;
    const Operand* a = x.a + p * x.a_step;
    for (int64_t j = 0; j < x.n; j += kPanel) {
      const Operand* b = x.b + p * x.b_step + j / kPanel * x.b_panel;
      switch (std::min<int64_t>(kBlockVectors, (x.n - j + kLanes - 1) / kLanes)) {
        case 1:
          panel_product<1>(x, a, b, x.c + j, depth, accumulate);
          break;
        case 2:
          panel_product<2>(x, a, b, x.c + j, depth, accumulate);
          break;
        case 3:
          panel_product<std::min(3, kBlockVectors)>(x, a, b, x.c + j, depth, accumulate);
          break;
        default:
          panel_product<kBlockVectors>(x, a, b, x.c + j, depth, accumulate);
      }
    }
  }
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
