#include "exec/cpu/norms/rms_norm.h"

#include <cmath>

#include "exec/cpu/optimizers/reduction.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/norms/rms_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/elementwise/rotary-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE float rstd_of_row(const T* x, int64_t hidden, float epsilon) {
  const FloatVector squares = fold_columns(hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    const FloatVector value = load(x + i, lanes);
    return hn::MulAdd(value, value, so_far);
  });
  return 1.0F / std::sqrt(sum_lanes(squares) / static_cast<float>(hidden) + epsilon);
}

template <class T, class Lanes>
HWY_INLINE FloatVector normalized(const T* x, const float* gamma, FloatVector rstd, int64_t i, Lanes lanes) {
  return hn::Mul(hn::Mul(load(x + i, lanes), rstd), load(gamma + i, lanes));
}

// y = x rstd gamma; returns rstd.
template <class T>
HWY_INLINE float rms_forward_row(const T* x, const float* gamma, int64_t hidden, float epsilon, T* y) {
  const float rstd = rstd_of_row(x, hidden, epsilon);
  const FloatVector scale = set(rstd);
  for_columns(0, hidden,
              [&](int64_t i, auto lanes) { store(normalized(x, gamma, scale, i, lanes), y + i, lanes); });
  return rstd;
}

// The same, turned by a row of cosines and sines.
template <class T>
HWY_INLINE float rms_turned_forward_row(const T* x, const float* gamma, const float* table, int64_t hidden,
                                        float epsilon, T* y) {
  const float rstd = rstd_of_row(x, hidden, epsilon);
  const FloatVector scale = set(rstd);
  const int64_t pairs = hidden / 2;
  for_columns(0, pairs, [&](int64_t i, auto lanes) {
    const Pair normal = {normalized(x, gamma, scale, i, lanes),
                         normalized(x, gamma, scale, pairs + i, lanes)};
    const Pair turned = turn(normal, load(table + i, lanes), load(table + pairs + i, lanes));
    store(turned.first, y + i, lanes);
    store(turned.second, y + pairs + i, lanes);
  });
  return rstd;
}

void rms_forward_rows(const RmsNormForward& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * g.hidden;
      const T* x = static_cast<const T*>(g.x) + at;
      T* y = static_cast<T*>(g.y) + at;
      g.rstd[row] = g.table == nullptr
                        ? rms_forward_row(x, g.gamma, g.hidden, g.epsilon, y)
                        : rms_turned_forward_row(x, g.gamma, g.table + row / g.groups * g.hidden, g.hidden,
                                                 g.epsilon, y);
    }
  });
}

void residual_rms_forward_rows(const ResidualRmsNormForward& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * g.hidden;
      const T* x = static_cast<const T*>(g.x) + at;
      const T* residual = static_cast<const T*>(g.residual) + at;
      T* z = static_cast<T*>(g.z) + at;
      for_columns(0, g.hidden, [&](int64_t i, auto lanes) {
        store(hn::Add(load(x + i, lanes), load(residual + i, lanes)), z + i, lanes);
      });
      g.rstd[row] =
          rms_forward_row(static_cast<const T*>(z), g.gamma, g.hidden, g.epsilon, static_cast<T*>(g.y) + at);
    }
  });
}

// With n = x rstd and g = dy gamma: dx = rstd (g - n sum(g n) / H), and dy n is added to dgamma. A vector of columns at a
// time, of a dy in registers.
template <class T>
struct RmsBackwardColumns {
  const T* x;
  const float* gamma;
  FloatVector rstd;
  float* dgamma;

  // Adds to dgamma, and g n to the sum so far.
  template <class Lanes>
  HWY_INLINE FloatVector add_products(FloatVector dy, FloatVector so_far, int64_t i, Lanes lanes) const {
    const FloatVector normal = hn::Mul(load(x + i, lanes), rstd);
    store(hn::MulAdd(dy, normal, load(dgamma + i, lanes)), dgamma + i, lanes);
    return hn::MulAdd(hn::Mul(dy, load(gamma + i, lanes)), normal, so_far);
  }
  template <class Lanes>
  HWY_INLINE FloatVector dx(FloatVector dy, FloatVector mean, int64_t i, Lanes lanes) const {
    const FloatVector normal = hn::Mul(load(x + i, lanes), rstd);
    const FloatVector scaled = hn::Mul(dy, load(gamma + i, lanes));
    return hn::Mul(rstd, hn::NegMulAdd(normal, mean, scaled));
  }
};

template <class T>
HWY_INLINE void rms_backward_row(const RmsNormBackward& g, int64_t row, float* dgamma) {
  const T* dy = static_cast<const T*>(g.dy) + row * g.hidden;
  const T* x = static_cast<const T*>(g.x) + row * g.hidden;
  const T* addend = g.dx_addend == nullptr ? nullptr : static_cast<const T*>(g.dx_addend) + row * g.hidden;
  T* dx = static_cast<T*>(g.dx) + row * g.hidden;
  const RmsBackwardColumns<T> columns{x, g.gamma, set(g.rstd[row]), dgamma};
  const FloatVector products = fold_columns(g.hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    return columns.add_products(load(dy + i, lanes), so_far, i, lanes);
  });
  const FloatVector mean = set(sum_lanes(products) / static_cast<float>(g.hidden));
  for_columns(0, g.hidden, [&](int64_t i, auto lanes) {
    FloatVector gradient = columns.dx(load(dy + i, lanes), mean, i, lanes);
    if (addend != nullptr) gradient = hn::Add(gradient, load(addend + i, lanes));
    store(gradient, dx + i, lanes);
  });
}

// The same of what was turned behind the norm: dy is turned back first. dx may be dy or x: both columns of a pair are read
// before one is written.
template <class T>
HWY_INLINE void rms_turned_backward_row(const RmsNormBackward& g, int64_t row, float* dgamma) {
  const T* dy = static_cast<const T*>(g.dy) + row * g.hidden;
  const T* x = static_cast<const T*>(g.x) + row * g.hidden;
  T* dx = static_cast<T*>(g.dx) + row * g.hidden;
  const float* table = g.table + row / g.groups * g.hidden;
  const int64_t pairs = g.hidden / 2;
  const RmsBackwardColumns<T> columns{x, g.gamma, set(g.rstd[row]), dgamma};
  const auto turned_back = [&](int64_t i, auto lanes) {
    return turn_back({load(dy + i, lanes), load(dy + pairs + i, lanes)}, load(table + i, lanes),
                     load(table + pairs + i, lanes));
  };
  const FloatVector products = fold_columns(pairs, [&](FloatVector so_far, int64_t i, auto lanes) {
    const Pair d = turned_back(i, lanes);
    so_far = columns.add_products(d.first, so_far, i, lanes);
    return columns.add_products(d.second, so_far, pairs + i, lanes);
  });
  const FloatVector mean = set(sum_lanes(products) / static_cast<float>(g.hidden));
  for_columns(0, pairs, [&](int64_t i, auto lanes) {
    const Pair d = turned_back(i, lanes);
    const Pair gradient = {columns.dx(d.first, mean, i, lanes), columns.dx(d.second, mean, pairs + i, lanes)};
    store(gradient.first, dx + i, lanes);
    store(gradient.second, dx + pairs + i, lanes);
  });
}

void rms_backward_chunks(const RmsNormBackward& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* dgamma = static_cast<float*>(g.workspace) + chunk * g.hidden;
      for_columns(0, g.hidden,
                  [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), dgamma + i, lanes); });
      const int64_t last_row = HWY_MIN(g.rows, (chunk + 1) * kRowsPerChunk);
      for (int64_t row = chunk * kRowsPerChunk; row < last_row; ++row) {
        if (g.table == nullptr) {
          rms_backward_row<T>(g, row, dgamma);
        } else {
          rms_turned_backward_row<T>(g, row, dgamma);
        }
      }
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(rms_forward_rows);
HWY_EXPORT(residual_rms_forward_rows);
HWY_EXPORT(rms_backward_chunks);

}  // namespace

void rms_norm_forward(const RmsNormForward& arguments) {
  check_storage(arguments.dtype, "rms_norm");
  parallel_ranges(arguments.rows, row_grain(arguments.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rms_forward_rows)(arguments, begin, end);
  });
}

void residual_rms_norm_forward(const ResidualRmsNormForward& arguments) {
  check_storage(arguments.dtype, "residual_rms_norm");
  parallel_ranges(arguments.rows, row_grain(arguments.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(residual_rms_forward_rows)(arguments, begin, end);
  });
}

int64_t rms_norm_backward_workspace_bytes(int64_t rows, int64_t hidden) {
  return ceil_divide(rows, kRowsPerChunk) * hidden * static_cast<int64_t>(sizeof(float));
}

void rms_norm_backward(const RmsNormBackward& g) {
  check_storage(g.dtype, "rms_norm");
  const int64_t chunks = ceil_divide(g.rows, kRowsPerChunk);
  parallel_ranges(chunks, chunk_grain(g.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rms_backward_chunks)(g, begin, end);
  });
  add_partials(static_cast<const float*>(g.workspace), chunks, g.hidden, g.hidden, g.accumulate, g.dgamma);
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
