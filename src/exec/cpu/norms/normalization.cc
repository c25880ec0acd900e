#include "exec/cpu/norms/normalization.h"

#include <cmath>

#include "exec/cpu/optimizers/reduction.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/norms/normalization.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/elementwise/dropout-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

using BackwardArguments = BiasDropoutResidualLayerNormBackward;
using ForwardArguments = BiasDropoutResidualLayerNormForward;

template <class T>
HWY_INLINE void apply_row(const T* z, float mean, float rstd, const float* gamma, const float* beta,
                          int64_t hidden, T* y) {
  const FloatVector center = set(mean);
  const FloatVector scale = set(rstd);
  for_columns(0, hidden, [&](int64_t i, auto lanes) {
    const FloatVector normal = hn::Mul(hn::Sub(load(z + i, lanes), center), scale);
    store(hn::MulAdd(normal, load(gamma + i, lanes), load(beta + i, lanes)), y + i, lanes);
  });
}

// Three passes over a row that lies in cache: the variance is that of centred values, without cancellation.
template <class T>
HWY_INLINE void normalize_row(const T* z, int64_t row, const ForwardArguments& g, T* y) {
  const FloatVector sum = fold_columns(g.hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    return hn::Add(so_far, load(z + i, lanes));
  });
  const float mean = sum_lanes(sum) / static_cast<float>(g.hidden);
  const FloatVector center = set(mean);
  const FloatVector squares = fold_columns(g.hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    const FloatVector centered = keep_live(hn::Sub(load(z + i, lanes), center), lanes);
    return hn::MulAdd(centered, centered, so_far);
  });
  const float variance = sum_lanes(squares) / static_cast<float>(g.hidden);
  const float rstd = 1.0F / std::sqrt(variance + g.epsilon);
  g.mean[row] = mean;
  g.rstd[row] = rstd;
  apply_row(z, mean, rstd, g.gamma, g.beta, g.hidden, y);
}

void output_rows(const LayerNormOutput& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      apply_row(static_cast<const T*>(g.z) + row * g.hidden, g.mean[row], g.rstd[row], g.gamma, g.beta,
                g.hidden, static_cast<T*>(g.y) + row * g.hidden);
    }
  });
}

template <class T>
void plain_forward_rows(const ForwardArguments& g, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(g.x) + row * g.hidden;
    normalize_row(x, row, g, static_cast<T*>(g.y) + row * g.hidden);
  }
}

template <class T, class Replay>
void fused_forward_rows(const ForwardArguments& g, int64_t begin, int64_t end) {
  Replay replay(g.dropout);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(g.x) + row * g.hidden;
    const T* residual = static_cast<const T*>(g.residual) + row * g.hidden;
    T* z = static_cast<T*>(g.z) + row * g.hidden;
    for_masked_columns(replay, row, g.hidden, [&](int64_t i, auto lanes) {
      FloatVector value = load(x + i, lanes);
      if (g.bias != nullptr) value = hn::Add(value, load(g.bias + i, lanes));
      store(hn::Add(load(residual + i, lanes), replay.apply(value, i)), z + i, lanes);
    });
    normalize_row<T>(z, row, g, static_cast<T*>(g.y) + row * g.hidden);
  }
}

void forward_rows(const ForwardArguments& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    if (g.z == nullptr) {
      plain_forward_rows<T>(g, begin, end);
    } else if (drops(g.dropout)) {
      fused_forward_rows<T, DropoutReplay>(g, begin, end);
    } else {
      fused_forward_rows<T, NoDropout>(g, begin, end);
    }
  });
}

// Parameter gradients of one chunk of rows, [H] each.
struct Partials {
  float* dgamma;
  float* dbeta;
  float* dbias;  // null: not wanted
};

// With n = (z - mean) rstd and g = dy gamma: dz = rstd (g - sum(g) / H - n sum(g n) / H).
template <class T, class Replay>
HWY_INLINE void backward_row(const BackwardArguments& g, Replay& replay, int64_t row,
                             const Partials& partials) {
  const int64_t offset = row * g.hidden;
  const T* dy = static_cast<const T*>(g.dy) + offset;
  const T* z = static_cast<const T*>(g.z) + offset;
  const T* addend = g.dz_addend == nullptr ? nullptr : static_cast<const T*>(g.dz_addend) + offset;
  T* dresidual = static_cast<T*>(g.dresidual) + offset;
  T* dx = g.dx == nullptr ? nullptr : static_cast<T*>(g.dx) + offset;
  const FloatVector mean = set(g.mean[row]);
  const FloatVector rstd = set(g.rstd[row]);
  FloatVector product_sum = hn::Zero(FloatTag());
  const FloatVector sum = fold_columns(g.hidden, [&](FloatVector so_far, int64_t i, auto lanes) {
    const FloatVector gradient = load(dy + i, lanes);
    const FloatVector normal = hn::Mul(hn::Sub(load(z + i, lanes), mean), rstd);
    const FloatVector scaled = hn::Mul(gradient, load(g.gamma + i, lanes));
    product_sum = hn::MulAdd(scaled, normal, product_sum);
    store(hn::MulAdd(gradient, normal, load(partials.dgamma + i, lanes)), partials.dgamma + i, lanes);
    store(hn::Add(load(partials.dbeta + i, lanes), gradient), partials.dbeta + i, lanes);
    return hn::Add(so_far, scaled);
  });
  const FloatVector sum_mean = set(sum_lanes(sum) / static_cast<float>(g.hidden));
  const FloatVector product_mean = set(sum_lanes(product_sum) / static_cast<float>(g.hidden));
  for_masked_columns(replay, row, g.hidden, [&](int64_t i, auto lanes) {
    const FloatVector normal = hn::Mul(hn::Sub(load(z + i, lanes), mean), rstd);
    const FloatVector scaled = hn::Mul(load(dy + i, lanes), load(g.gamma + i, lanes));
    FloatVector dz = hn::Mul(rstd, hn::NegMulAdd(normal, product_mean, hn::Sub(scaled, sum_mean)));
    if (addend != nullptr) dz = hn::Add(dz, load(addend + i, lanes));
    store(dz, dresidual + i, lanes);
    if (dx == nullptr && partials.dbias == nullptr) return;
    const FloatVector masked = replay.apply(dz, i);
    if (dx != nullptr) store(masked, dx + i, lanes);
    if (partials.dbias == nullptr) return;
    store(hn::Add(load(partials.dbias + i, lanes), masked), partials.dbias + i, lanes);
  });
}

template <class T, class Replay>
void backward_chunks_of(const BackwardArguments& g, int64_t begin, int64_t end) {
  Replay replay(g.dropout);
  const int64_t parameters = g.dbias == nullptr ? 2 : 3;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* partial = static_cast<float*>(g.workspace) + chunk * parameters * g.hidden;
    for_columns(0, parameters * g.hidden,
                [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), partial + i, lanes); });
    const Partials partials{partial, partial + g.hidden,
                            g.dbias == nullptr ? nullptr : partial + 2 * g.hidden};
    const int64_t last_row = HWY_MIN(g.rows, (chunk + 1) * kRowsPerChunk);
    for (int64_t row = chunk * kRowsPerChunk; row < last_row; ++row) {
      backward_row<T>(g, replay, row, partials);
    }
  }
}

void backward_chunks(const BackwardArguments& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    if (drops(g.dropout)) {
      backward_chunks_of<T, DropoutReplay>(g, begin, end);
    } else {
      backward_chunks_of<T, NoDropout>(g, begin, end);
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(output_rows);
HWY_EXPORT(backward_chunks);

int64_t workspace_bytes(int64_t rows, int64_t hidden, int64_t parameters) {
  return parameters * ceil_divide(rows, kRowsPerChunk) * hidden * static_cast<int64_t>(sizeof(float));
}

void run_forward(const BiasDropoutResidualLayerNormForward& arguments) {
  parallel_ranges(arguments.rows, row_grain(arguments.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_rows)(arguments, begin, end);
  });
}

void run_backward(const BiasDropoutResidualLayerNormBackward& g) {
  const int64_t chunks = ceil_divide(g.rows, kRowsPerChunk);
  parallel_ranges(chunks, chunk_grain(g.hidden),
                  [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(backward_chunks)(g, begin, end); });
  const float* partials = static_cast<const float*>(g.workspace);
  const int64_t stride = (g.dbias == nullptr ? 2 : 3) * g.hidden;
  add_partials(partials, chunks, stride, g.hidden, g.accumulate.dgamma, g.dgamma);
  add_partials(partials + g.hidden, chunks, stride, g.hidden, g.accumulate.dbeta, g.dbeta);
  if (g.dbias == nullptr) return;
  add_partials(partials + 2 * g.hidden, chunks, stride, g.hidden, g.accumulate.dbias, g.dbias);
}

}  // namespace

// The plain kernels are the fused ones with nothing before the normalization: no z marks them.
void layer_norm_forward(const LayerNormForward& g) {
  check_storage(g.dtype, "layer_norm");
  run_forward({.dtype = g.dtype,
               .rows = g.rows,
               .hidden = g.hidden,
               .epsilon = g.epsilon,
               .dropout = {},
               .x = g.x,
               .bias = nullptr,
               .residual = nullptr,
               .gamma = g.gamma,
               .beta = g.beta,
               .z = nullptr,
               .y = g.y,
               .mean = g.mean,
               .rstd = g.rstd});
}

void layer_norm_output(const LayerNormOutput& arguments) {
  check_storage(arguments.dtype, "layer_norm_output");
  parallel_ranges(arguments.rows, row_grain(arguments.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(output_rows)(arguments, begin, end);
  });
}

int64_t layer_norm_backward_workspace_bytes(int64_t rows, int64_t hidden) {
  return workspace_bytes(rows, hidden, 2);
}

void layer_norm_backward(const LayerNormBackward& g) {
  check_storage(g.dtype, "layer_norm");
  run_backward({.dtype = g.dtype,
                .rows = g.rows,
                .hidden = g.hidden,
                .dropout = {},
                .dy = g.dy,
                .dz_addend = nullptr,
                .z = g.x,
                .mean = g.mean,
                .rstd = g.rstd,
                .gamma = g.gamma,
                .dresidual = g.dx,
                .dx = nullptr,
                .dbias = nullptr,
                .dgamma = g.dgamma,
                .dbeta = g.dbeta,
                .accumulate = g.accumulate,
                .workspace = g.workspace});
}

void bias_dropout_residual_layer_norm_forward(const BiasDropoutResidualLayerNormForward& arguments) {
  check_storage(arguments.dtype, "bias_dropout_residual_layer_norm");
  CHECK(arguments.rows == 0 || arguments.z != nullptr,
        "[bias_dropout_residual_layer_norm] expected a buffer for z, got none");
  run_forward(arguments);
}

int64_t bias_dropout_residual_layer_norm_backward_workspace_bytes(int64_t rows, int64_t hidden) {
  return workspace_bytes(rows, hidden, 3);
}

void bias_dropout_residual_layer_norm_backward(const BiasDropoutResidualLayerNormBackward& arguments) {
  check_storage(arguments.dtype, "bias_dropout_residual_layer_norm");
  run_backward(arguments);
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
