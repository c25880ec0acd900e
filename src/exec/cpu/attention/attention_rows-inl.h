// Inside attention: rows of a head packed into operands of products (attention_block-inl.h), and results back into rows.
// Left operands are read by rows, right operands by panels. Included after foreach_target.h; everything is in
// shoehorn::cpu::HWY_NAMESPACE::attention.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/float16.h"
#include "base/philox.h"
#include "base/rounding.h"
#include "exec/cpu/attention/attention.h"
#include "exec/cpu/attention/attention_block-inl.h"
#include "exec/cpu/simd/bf16_dots.h"
#include "exec/cpu/storage.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if defined(SHOEHORN_EXEC_CPU_ATTENTION_ROWS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_ATTENTION_ROWS_INL_
#undef SHOEHORN_EXEC_CPU_ATTENTION_ROWS_INL_
#else
#define SHOEHORN_EXEC_CPU_ATTENTION_ROWS_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

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

// ---- Operands. What follows has a form for floats and one for bf16 pairs, which holds the same numbers in half the
// bytes: of pairs, `scale` is 1 (a product of bf16 numbers is exact in f32, a scaled number would be rounded).

// Operands along `elements` of a product's depth.
template <class Operand>
constexpr int64_t operands_of(int64_t elements) {
  return std::is_same_v<Operand, float> ? elements : ceil_divide(elements, 2);
}

// Operands in a workspace of floats.
template <class Operand>
HWY_INLINE Operand* operands(float* workspace) {
  return reinterpret_cast<Operand*>(workspace);
}

// What products of packed queries and keys lack of scores in units of log 2: floats of queries are packed with it.
template <class Operand>
HWY_INLINE float scale_of_scores(const AttentionBatch& batch) {
  return std::is_same_v<Operand, float> ? 1.0F : batch.scale * kLog2E;
}

// What products of packed gradients and values lack of the gradients of dropped probabilities: floats of values are
// packed with it in the backward.
template <class Operand>
HWY_INLINE float scale_of_gradients(const AttentionBatch& batch) {
  return std::is_same_v<Operand, float> ? 1.0F : keep_scale(batch.dropout.p);
}

// choose(type, operand, dropout) for the batch: `type` a value of what its dtype is stored as, `operand` one of what
// its products read, `dropout` a std::bool_constant that says whether it drops anything.
template <class Task, class Choose>
Task choose_task(const AttentionBatch& batch, const Choose& choose) {
  Task task = nullptr;
  const auto with_operand = [&](auto type, auto operand) {
    task = batch.dropout.p > 0.0F ? choose(type, operand, std::true_type())
                                  : choose(type, operand, std::false_type());
  };
  with_storage(batch.dtype, [&](auto type) {
    if constexpr (std::is_same_v<decltype(type), bfloat16> && kLanes == 16) {
      // Scaled behind their product, the greatest score is the greatest only of a positive scale.
      if (has_fast_bf16_dots() && batch.scale > 0.0F) return with_operand(type, Bf16Pair());
    }
    with_operand(type, 0.0F);
  });
  return task;
}

// A left operand [rows, operands_of(padded)] whose depth is the columns.
template <class T>
HWY_INLINE void pack_left(const T* x, int64_t stride, int64_t rows, int64_t columns, float scale,
                          int64_t padded, float* out) {
  pack_rows(x, stride, rows, columns, scale, padded, out);
}
inline void pack_left(const bfloat16* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns, float,
                      int64_t padded, Bf16Pair* HWY_RESTRICT out) {
  for (int64_t i = 0; i < rows; ++i) {
    prefetch_row(x + std::min(i + kPrefetchRows, rows - 1) * stride, columns);
    auto* row = reinterpret_cast<bfloat16*>(out + i * (padded / 2));
    std::copy_n(x + i * stride, columns, row);
    std::fill(row + columns, row + padded, bfloat16{});
  }
}

// A right operand whose depth is the rows: [operands_of(rows), padded].
template <class T>
HWY_INLINE void pack_right(const T* x, int64_t stride, int64_t rows, int64_t columns, int64_t padded,
                           float* out) {
  pack_rows(x, stride, rows, columns, 1.0F, padded, out);
}
inline void pack_right(const bfloat16* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns,
                       int64_t padded, Bf16Pair* HWY_RESTRICT out) {
  for (int64_t i = 0; i < rows; i += 2, out += padded) {
    for (const int64_t row : {i, i + 1})
      prefetch_row(x + std::min(row + kPrefetchRows, rows - 1) * stride, columns);
    const bfloat16* first = x + i * stride;
    if (i + 1 < rows) {
      const bfloat16* second = first + stride;
      for (int64_t j = 0; j < columns; ++j) out[j] = {first[j], second[j]};
    } else {
      for (int64_t j = 0; j < columns; ++j) out[j] = {first[j], {}};
    }
    std::fill(out + columns, out + padded, Bf16Pair{});
  }
}

// A right operand whose depth is the columns, transposed: panels [operands_of(columns), kPanel], one after another.
// What is missing of the last panel's last vector is zeros.
template <class T>
HWY_INLINE void pack_panels(const T* x, int64_t stride, int64_t rows, int64_t columns, float scale,
                            float* out) {
  pack_transposed(x, stride, rows, columns, scale, out);
}
inline void pack_panels(const bfloat16* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns, float,
                        Bf16Pair* HWY_RESTRICT out) {
  const int64_t depth = operands_of<Bf16Pair>(columns);
  for (int64_t first = 0; first < rows; first += kPanel, out += depth * kPanel) {
    const int64_t width = std::min(kPanel, rows - first);
    for (int64_t i = 0; i < width; ++i) {
      const bfloat16* row = x + (first + i) * stride;
      prefetch_row(x + std::min(first + i + kPrefetchRows, rows - 1) * stride, columns);
      for (int64_t p = 0; p < columns / 2; ++p) out[p * kPanel + i] = {row[2 * p], row[2 * p + 1]};
      if (columns % 2 != 0) out[(depth - 1) * kPanel + i] = {row[columns - 1], {}};
    }
    for (int64_t p = 0; p < depth; ++p)
      std::fill(out + p * kPanel + width, out + p * kPanel + round_up(width, kLanes), Bf16Pair{});
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
