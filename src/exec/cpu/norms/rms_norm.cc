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

// The same, turned by a row of cosines and sines.
template <class T>
HWY_INLINE float rms_turned_forward_row(const T* x, const float* gamma, const float* table, int64_t hidden,
                                        float epsilon, T* y) {
  const float rstd = rstd_of_row(x, hidden, epsilon);
  const FloatVector scale = set(rstd);
  const int64_t pairs = hidden / 2;
  for_columns(0, pairs, [&](int64_t i, auto lanes) {
    const FloatVector cosine = load(table + i, lanes), sine = load(table + pairs + i, lanes);
    const FloatVector first = hn::Mul(hn::Mul(load(x + i, lanes), scale), load(gamma + i, lanes));
    const FloatVector second =
        hn::Mul(hn::Mul(load(x + pairs + i, lanes), scale), load(gamma + pairs + i, lanes));
    store(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), y + i, lanes);
    store(hn::MulAdd(first, sine, hn::Mul(second, cosine)), y + pairs + i, lanes);
  });
  return rstd;
}

// y = x rstd gamma; returns rstd.
template <class T>
HWY_INLINE float rms_forward_row(const T* x, const float* gamma, int64_t hidden, float epsilon, T* y) {
  const float rstd = rstd_of_row(x, hidden, epsilon);
  const FloatVector scale = set(rstd);
  for_columns(0, hidden, [&](int64_t i, auto lanes) {
    store(hn::Mul(hn::Mul(load(x + i, lanes), scale), load(gamma + i, lanes)), y + i, lanes);
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

// With n = x rstd and g = dy gamma: dx = rstd (g - n sum(g n) / H).
template <class T>
HWY_INLINE void rms_backward_row(const RmsNormBackward& g, int64_t row, float* dgamma) {
  const T* dy = static_cast<const T*>(g.dy) + row * g.hidden;
  const T* x = static_cast<const T*>(g.x) + row * g.hidden;
  const T* addend = g.dx_addend == nullptr ? nullptr : static_cast<const T*>(g.dx_addend) + row * g.hidden;
  T* dx = static_cast<T*>(g.dx) + row * g.hidden;
  const FloatVector rstd = set(g.rstd[row]);
  const FloatVector products = fold_columns(g.hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    const FloatVector gradient = load(dy + i, lanes);
    const FloatVector normal = hn::Mul(load(x + i, lanes), rstd);
    store(hn::MulAdd(gradient, normal, load(dgamma + i, lanes)), dgamma + i, lanes);
    return hn::MulAdd(hn::Mul(gradient, load(g.gamma + i, lanes)), normal, so_far);
  });
  const FloatVector mean = set(sum_lanes(products) / static_cast<float>(g.hidden));
  for_columns(0, g.hidden, [&](int64_t i, auto lanes) {
    const FloatVector normal = hn::Mul(load(x + i, lanes), rstd);
    const FloatVector scaled = hn::Mul(load(dy + i, lanes), load(g.gamma + i, lanes));
    FloatVector gradient = hn::Mul(rstd, hn::NegMulAdd(normal, mean, scaled));
    if (addend != nullptr) gradient = hn::Add(gradient, load(addend + i, lanes));
    store(gradient, dx + i, lanes);
  });
}

// The same of what was turned behind the norm: dy is turned back first.
template <class T>
HWY_INLINE void rms_turned_backward_row(const RmsNormBackward& g, int64_t row, float* dgamma) {
  const T* dy = static_cast<const T*>(g.dy) + row * g.hidden;
  const T* x = static_cast<const T*>(g.x) + row * g.hidden;
  T* dx = static_cast<T*>(g.dx) + row * g.hidden;
  const float* table = g.table + row / g.groups * g.hidden;
  const FloatVector rstd = set(g.rstd[row]);
  const int64_t pairs = g.hidden / 2;
  const auto turned_back = [&](int64_t i, auto lanes, FloatVector& first, FloatVector& second) {
    const FloatVector cosine = load(table + i, lanes), sine = load(table + pairs + i, lanes);
    const FloatVector one = load(dy + i, lanes), other = load(dy + pairs + i, lanes);
    first = hn::MulAdd(other, sine, hn::Mul(one, cosine));
    second = hn::NegMulAdd(one, sine, hn::Mul(other, cosine));
  };
  const FloatVector products = fold_columns(pairs, [&](FloatVector so_far, int64_t i, auto lanes) {
    FloatVector first, second;
    turned_back(i, lanes, first, second);
    const FloatVector normal = hn::Mul(load(x + i, lanes), rstd);
    const FloatVector other_normal = hn::Mul(load(x + pairs + i, lanes), rstd);
    store(hn::MulAdd(first, normal, load(dgamma + i, lanes)), dgamma + i, lanes);
    store(hn::MulAdd(second, other_normal, load(dgamma + pairs + i, lanes)), dgamma + pairs + i, lanes);
    so_far = hn::MulAdd(hn::Mul(first, load(g.gamma + i, lanes)), normal, so_far);
    return hn::MulAdd(hn::Mul(second, load(g.gamma + pairs + i, lanes)), other_normal, so_far);
  });
  const FloatVector mean = set(sum_lanes(products) / static_cast<float>(g.hidden));
  for_columns(0, pairs, [&](int64_t i, auto lanes) {
    FloatVector first, second;
    turned_back(i, lanes, first, second);
    const auto gradient = [&](FloatVector d, int64_t at) {
      const FloatVector normal = hn::Mul(load(x + at, lanes), rstd);
      return hn::Mul(rstd, hn::NegMulAdd(normal, mean, hn::Mul(d, load(g.gamma + at, lanes))));
    };
    const FloatVector dx_first = gradient(first, i);
    const FloatVector dx_second = gradient(second, pairs + i);
    store(dx_first, dx + i, lanes);
    store(dx_second, dx + pairs + i, lanes);
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
