// Inside attention: a register-blocked product of small f32 matrices, and packing into and out of its
// operands. Included after foreach_target.h; everything lies in shoehorn::cpu::HWY_NAMESPACE::attention.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/float16.h"
#include "exec/cpu/attention/attention.h"
#include "hwy/cache_control.h"
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
// kLanes.
struct Product {
  const float*
      a;  // element (i, p) at a[i * a_row + p * a_step]: a_row and a_step swapped is a transposed operand
  int64_t a_row;
  int64_t a_step;
  const float* b;  // element (p, j) at b[p * b_step + (j / kPanel) * b_panel + j % kPanel]
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

// All rows of a panel: groups of kBlockRows rows, then the remaining rows with the kernel for that many.
template <int kVectors>
HWY_INLINE void panel_product(const Product& x, const float* a, const float* b, float* c, int64_t k,
                              bool accumulate) {
  int64_t i = 0;
  for (; i + kBlockRows <= x.m; i += kBlockRows) {
    block_product<kBlockRows, kVectors>(a + i * x.a_row, x.a_row, x.a_step, b, x.b_step, c + i * x.c_row,
                                        x.c_row, k, accumulate);
  }
  using Kernel = decltype(&block_product<1, kVectors>);
  constexpr Kernel kRest[kBlockRows] = {nullptr,
                                        &block_product<1, kVectors>,
                                        &block_product<2, kVectors>,
                                        &block_product<3, kVectors>,
                                        &block_product<4, kVectors>,
                                        &block_product<5, kVectors>};
  if (i < x.m)
    kRest[x.m - i](a + i * x.a_row, x.a_row, x.a_step, b, x.b_step, c + i * x.c_row, x.c_row, k, accumulate);
}

inline void multiply(const Product& x) {
  for (int64_t p = 0; p < x.k; p += kDepth) {
    const int64_t depth = std::min(kDepth, x.k - p);
    const bool accumulate = x.accumulate || p > 0;
    const float* a = x.a + p * x.a_step;
    for (int64_t j = 0; j < x.n; j += kPanel) {
      const float* b = x.b + p * x.b_step + j / kPanel * x.b_panel;
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

// Scores are in units of log 2.
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147181F;

// The address of column `column` in row `row`.
template <class T>
HWY_INLINE const T* head_rows(const ConstHeadRows& x, int64_t row, int64_t column) {
  return static_cast<const T*>(x.data) + row * x.stride + column;
}
template <class T>
HWY_INLINE T* head_rows(const HeadRows& x, int64_t row, int64_t column) {
  return static_cast<T*>(x.data) + row * x.stride + column;
}

HWY_INLINE float element(const float* x) {
  return *x;
}
HWY_INLINE float element(const bfloat16* x) {
  return to_float(*x);
}
HWY_INLINE void set_element(float* x, float value) {
  *x = value;
}
HWY_INLINE void set_element(bfloat16* x, float value) {
  *x = to_bfloat16(value);
}

// out = scale · x for one row. Compilers vectorize this loop, but not the one for float16.
template <class T>
HWY_INLINE void widen_row(const T* HWY_RESTRICT x, int64_t columns, float scale, float* HWY_RESTRICT out) {
  for (int64_t j = 0; j < columns; ++j) out[j] = element(x + j) * scale;
}
HWY_INLINE void widen_row(const float16* HWY_RESTRICT x, int64_t columns, float scale,
                          float* HWY_RESTRICT out) {
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(x + j)));
    hn::StoreU(hn::Mul(wide, hn::Set(d, scale)), d, out + j);
  }
  for (; j < columns; ++j) out[j] = to_float(x[j]) * scale;
}

template <class T>
HWY_INLINE void narrow_row(const float* HWY_RESTRICT x, int64_t columns, float scale, T* HWY_RESTRICT out) {
  for (int64_t j = 0; j < columns; ++j) set_element(out + j, x[j] * scale);
}
HWY_INLINE void narrow_row(const float* HWY_RESTRICT x, int64_t columns, float scale,
                           float16* HWY_RESTRICT out) {
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    const FloatVector wide = hn::Mul(hn::LoadU(d, x + j), hn::Set(d, scale));
    hn::StoreU(hn::DemoteTo(half, wide), half, reinterpret_cast<hwy::float16_t*>(out + j));
  }
  for (; j < columns; ++j) out[j] = to_float16(x[j] * scale);
}

// out[j * kPanel] = scale · x[j], of one row.
template <class T>
HWY_INLINE void widen_into_column(const T* HWY_RESTRICT x, int64_t columns, float scale,
                                  float* HWY_RESTRICT out) {
  for (int64_t j = 0; j < columns; ++j) out[j * kPanel] = element(x + j) * scale;
}
HWY_INLINE void widen_into_column(const float16* HWY_RESTRICT x, int64_t columns, float scale,
                                  float* HWY_RESTRICT out) {
  HWY_ALIGN float part[kPanel];
  for (int64_t j = 0; j < columns; j += kPanel) {
    const int64_t width = std::min(kPanel, columns - j);
    widen_row(x + j, width, scale, part);
    for (int64_t i = 0; i < width; ++i) out[(j + i) * kPanel] = part[i];
  }
}

// Rows of a packed batch lie pages apart, where hardware prefetchers do not follow. So each step prefetches
// the row that is needed kPrefetchRows later.
inline constexpr int64_t kPrefetchRows = 8;
template <class T>
HWY_INLINE void prefetch_row(const T* row, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t j = 0; j < columns; j += kLine) hwy::Prefetch(row + j);
}

// out [rows, padded columns] = scale · x; the padding is zeros.
template <class T>
HWY_NOINLINE void pack_rows(const T* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns,
                            float scale, int64_t padded, float* HWY_RESTRICT out) {
  for (int64_t i = 0; i < rows; ++i) {
    prefetch_row(x + std::min(i + kPrefetchRows, rows - 1) * stride, columns);
    widen_row(x + i * stride, columns, scale, out + i * padded);
    for (int64_t j = columns; j < padded; ++j) out[i * padded + j] = 0.0F;
  }
}

// out = scale · xᵀ in panels [columns, kPanel], one after another; what is missing of the last panel's last
// vector is zeros.
template <class T>
HWY_NOINLINE void pack_transposed(const T* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns,
                                  float scale, float* HWY_RESTRICT out) {
  for (int64_t first = 0; first < rows; first += kPanel, out += columns * kPanel) {
    const int64_t width = std::min(kPanel, rows - first);
    const int64_t padded = (width + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = 0; i < width; ++i) widen_into_column(x + (first + i) * stride, columns, scale, out + i);
    for (int64_t i = width; i < padded; ++i) {
      for (int64_t j = 0; j < columns; ++j) out[j * kPanel + i] = 0.0F;
    }
  }
}

// x [rows, columns] = scale · packed.
template <class T>
HWY_NOINLINE void unpack_rows(const float* HWY_RESTRICT packed, int64_t padded, int64_t rows, int64_t columns,
                              float scale, T* HWY_RESTRICT x, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) narrow_row(packed + i * padded, columns, scale, x + i * stride);
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
