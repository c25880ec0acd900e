#include "exec/cpu/optimizers/adafactor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "exec/cpu/parallel.h"
#include "graph/relative_step.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/adafactor.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/optimizers/weight_forms-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_ADAFACTOR_COMMON_
#define SHOEHORN_EXEC_CPU_ADAFACTOR_COMMON_

namespace shoehorn::cpu {

// The scalars of one parameter's update, and its part of the workspace. A chunk is kRowsPerChunk rows of a
// matrix; the last chunk of a matrix may be shorter.
struct AdafactorStep {
  GradientForm gradient = {};
  float gradient_epsilon = 0;
  float beta2t = 0;
  float beta2t_rest = 0;
  float beta1 = 0;
  float beta1_rest = 0;
  float scale = 0;                   // of u: lr_t over the clipping
  float decay = 1;                   // 1 - weight_decay lr_t
  float* column_factor = nullptr;    // [M, C] 1 / sqrt(col), or 1 / sqrt(v)
  float* row_factor = nullptr;       // [M, R] 1 / sqrt(row / mean(row)); 1 for a vector
  double* weight_squares = nullptr;  // [chunks]
  float* column_sums = nullptr;      // [chunks, C] of s
  float* column_shares = nullptr;    // [chunks, C] of g^2 / row
};

// Rows of one chunk, counted over all matrices.
struct RowChunk {
  int64_t index;
  int64_t matrix;
  int64_t begin;
  int64_t end;
};

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_ADAFACTOR_COMMON_

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

template <class Function>
HWY_INLINE void with_form(const WeightView& view, const Function& function) {
  with_weight(view, DType::kF32, [&](auto weight, auto) { function(weight); });
}

// Sums of the squares of a chunk's weights.
void square_weights(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk) {
  double total = 0;
  with_form(p.weight, [&](const auto& weight) {
    for (int64_t row = chunk.begin; row < chunk.end; ++row) {
      total += static_cast<double>(
          sum_lanes(fold_columns(p.columns, [&](FloatVector so_far, int64_t i, auto lanes) {
            const FloatVector w = weight.get(row * p.columns + i, lanes);
            return hn::MulAdd(w, w, so_far);
          })));
    }
  });
  step.weight_squares[chunk.index] = total;
}

// The next moment of a row, from its gradients.
HWY_INLINE float next_row_moment(const AdafactorParameter& p, const AdafactorStep& step, int64_t row) {
  const float* gradient = p.gradient + row * p.columns;
  const float sum = sum_lanes(fold_columns(p.columns, [&](FloatVector so_far, int64_t i, auto lanes) {
    const FloatVector g = formed(load(gradient + i, lanes), step.gradient);
    return hn::Add(so_far, keep_live(hn::MulAdd(g, g, set(step.gradient_epsilon)), lanes));
  }));
  const float mean = sum / static_cast<float>(p.columns);
  return p.row_moment[row] * step.beta2t + mean * step.beta2t_rest;
}

// The moments of kRows rows, and their contribution to a chunk's sums over rows. The rows are read a second
// time while they are in the cache. Several rows together load and store the sums only once.
template <int64_t kRows>
HWY_INLINE void add_rows(const AdafactorParameter& p, const AdafactorStep& step, int64_t row, float* sums,
                         float* shares) {
  float roots[kRows];
  for (int64_t r = 0; r < kRows; ++r) {
    if (p.row_moment != nullptr) p.row_moment[row + r] = next_row_moment(p, step, row + r);
    roots[r] = p.row_moment != nullptr ? 1.0F / std::sqrt(p.row_moment[row + r]) : 1.0F;
  }
  const float* gradient = p.gradient + row * p.columns;
  for_columns(0, p.columns, [&](int64_t i, auto lanes) {
    FloatVector sum = load(sums + i, lanes);
    FloatVector share_sum = load(shares + i, lanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const FloatVector g = formed(load(gradient + r * p.columns + i, lanes), step.gradient);
      sum = hn::Add(sum, hn::MulAdd(g, g, set(step.gradient_epsilon)));
      const FloatVector share = hn::Mul(g, set(roots[r]));
      share_sum = hn::MulAdd(share, share, share_sum);
    }
    store(sum, sums + i, lanes);
    store(share_sum, shares + i, lanes);
  });
}

// Row moments of a chunk, and its share of the sums over rows.
void second_moments(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk) {
  constexpr int64_t kTogether = 4;
  float* sums = step.column_sums + chunk.index * p.columns;
  float* shares = step.column_shares + chunk.index * p.columns;
  std::memset(sums, 0, static_cast<size_t>(p.columns) * sizeof(float));
  std::memset(shares, 0, static_cast<size_t>(p.columns) * sizeof(float));
  int64_t row = chunk.begin;
  for (; row + kTogether <= chunk.end; row += kTogether) add_rows<kTogether>(p, step, row, sums, shares);
  for (; row < chunk.end; ++row) add_rows<1>(p, step, row, sums, shares);
}

// What u multiplies the rows of a matrix by. Gives the mean of their moments.
HWY_INLINE float finish_rows(const AdafactorParameter& p, const AdafactorStep& step, int64_t matrix) {
  if (p.row_moment == nullptr) {
    step.row_factor[0] = 1.0F;
    return 1.0F;
  }
  const float* moment = p.row_moment + matrix * p.rows;
  double total = 0;
  for (int64_t row = 0; row < p.rows; ++row) total += static_cast<double>(moment[row]);
  const auto mean = static_cast<float>(total / static_cast<double>(p.rows));
  for (int64_t row = 0; row < p.rows; ++row)
    step.row_factor[matrix * p.rows + row] = 1.0F / std::sqrt(moment[row] / mean);
  return mean;
}

// The other moments of a matrix from its chunks' sums, and what u multiplies by. Gives the sum of u^2.
double finish_moments(const AdafactorParameter& p, const AdafactorStep& step, int64_t matrix,
                      int64_t chunks) {
  const FloatVector row_mean = set(finish_rows(p, step, matrix));
  float* moment = p.column_moment != nullptr ? p.column_moment + matrix * p.columns : p.second_moment;
  float* factor = step.column_factor + matrix * p.columns;
  const float* sums = step.column_sums + matrix * chunks * p.columns;
  const float* shares = step.column_shares + matrix * chunks * p.columns;
  const float part = 1.0F / static_cast<float>(p.rows);
  double squares = 0;
  for_columns(0, p.columns, [&](int64_t i, auto lanes) {
    FloatVector sum = hn::Zero(FloatTag());
    FloatVector share = hn::Zero(FloatTag());
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      sum = hn::Add(sum, load(sums + chunk * p.columns + i, lanes));
      share = hn::Add(share, load(shares + chunk * p.columns + i, lanes));
    }
    const FloatVector mean = hn::Mul(sum, set(part));
    const FloatVector next =
        hn::MulAdd(load(moment + i, lanes), set(step.beta2t), hn::Mul(mean, set(step.beta2t_rest)));
    store(next, moment + i, lanes);
    store(hn::Div(set(1.0F), hn::Sqrt(next)), factor + i, lanes);
    const FloatVector square = hn::Mul(share, hn::Div(row_mean, next));
    squares += static_cast<double>(sum_lanes(keep_live(square, lanes)));
  });
  return squares;
}

void apply_updates(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk) {
  const float* column_factor = step.column_factor + chunk.matrix * p.columns;
  with_form(p.weight, [&](auto& weight) {
    for (int64_t row = chunk.begin; row < chunk.end; ++row) {
      const FloatVector row_factor = set(step.row_factor[row]);
      const int64_t offset = row * p.columns;
      for_weight_elements(weight, offset, offset + p.columns, [&](int64_t at, auto lanes) {
        const FloatVector g = formed(load(p.gradient + at, lanes), step.gradient);
        FloatVector u = hn::Mul(hn::Mul(row_factor, load(column_factor + (at - offset), lanes)), g);
        u = hn::Mul(u, set(step.scale));
        if (p.first_moment != nullptr) {
          u = hn::MulAdd(load(p.first_moment + at, lanes), set(step.beta1), hn::Mul(u, set(step.beta1_rest)));
          store(u, p.first_moment + at, lanes);
        }
        const FloatVector w = hn::Mul(weight.get(at, lanes), set(step.decay));
        weight.put(hn::Sub(w, u), at, lanes);
      });
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(square_weights);
HWY_EXPORT(second_moments);
HWY_EXPORT(finish_moments);
HWY_EXPORT(apply_updates);

int64_t chunks_of(int64_t rows) {
  return ceil_divide(rows, kRowsPerChunk);
}

int64_t aligned(int64_t bytes) {
  return ceil_divide(bytes, 64) * 64;
}

int64_t elements(const AdafactorParameter& p) {
  return p.matrices * p.rows * p.columns;
}

// Calls work(parameter, step, chunk) on all chunks.
template <class Work>
void for_chunks(const AdafactorParameter& p, const AdafactorStep& step, const Work& work) {
  const int64_t of_matrix = chunks_of(p.rows);
  parallel_ranges(p.matrices * of_matrix, chunk_grain(p.columns), [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) {
      const int64_t matrix = index / of_matrix;
      const int64_t begin = index % of_matrix * kRowsPerChunk;
      const int64_t end = std::min(p.rows, begin + kRowsPerChunk);
      work(p, step, RowChunk{index, matrix, matrix * p.rows + begin, matrix * p.rows + end});
    }
  });
}

AdafactorStep place(const AdafactorParameter& p, void* workspace) {
  auto* at = static_cast<std::byte*>(workspace);
  const auto take = [&](int64_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  const int64_t chunks = p.matrices * chunks_of(p.rows);
  AdafactorStep step;
  step.weight_squares = reinterpret_cast<double*>(take(8 * chunks));
  step.row_factor = reinterpret_cast<float*>(take(4 * p.matrices * p.rows));
  step.column_factor = reinterpret_cast<float*>(take(4 * p.matrices * p.columns));
  step.column_sums = reinterpret_cast<float*>(take(4 * chunks * p.columns));
  step.column_shares = reinterpret_cast<float*>(take(4 * chunks * p.columns));
  return step;
}

double learning_rate_of(const AdafactorParameter& p, const AdafactorSettings& settings, double given,
                        double t, const AdafactorStep& step) {
  const double rate = settings.relative_step ? relative_step(settings, t) : given;
  if (!settings.scale_parameter) return rate;
  for_chunks(p, step, HWY_DYNAMIC_DISPATCH(square_weights));
  double squares = 0;
  for (int64_t chunk = 0; chunk < p.matrices * chunks_of(p.rows); ++chunk)
    squares += step.weight_squares[chunk];
  const double root_mean_square = std::sqrt(squares / static_cast<double>(elements(p)));
  return rate * std::max(settings.parameter_epsilon, root_mean_square);
}

// All moments of a parameter. Gives the root mean square of u.
double update_moments(const AdafactorParameter& p, const AdafactorStep& step) {
  for_chunks(p, step, HWY_DYNAMIC_DISPATCH(second_moments));
  double squares = 0;
  for (int64_t matrix = 0; matrix < p.matrices; ++matrix)
    squares += HWY_DYNAMIC_DISPATCH(finish_moments)(p, step, matrix, chunks_of(p.rows));
  return std::sqrt(squares / static_cast<double>(elements(p)));
}

void check_parameter(const AdafactorParameter& p) {
  check_update(p.weight, DType::kF32, elements(p), "adafactor");
  CHECK((p.row_moment != nullptr) == (p.column_moment != nullptr) &&
            (p.row_moment != nullptr) != (p.second_moment != nullptr) &&
            (p.second_moment == nullptr || p.matrices * p.rows == 1),
        "[adafactor] expected the moments of a matrix or of a vector, got neither");
}

}  // namespace

int64_t adafactor_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns) {
  const int64_t chunks = matrices * chunks_of(rows);
  return aligned(8 * chunks) + aligned(4 * matrices * rows) + aligned(4 * matrices * columns) +
         2 * aligned(4 * chunks * columns);
}

void adafactor_update(std::span<const AdafactorParameter> parameters, const AdafactorSettings& settings,
                      const UpdateScalars& scalars, const uint32_t* applied_updates, void* workspace) {
  if (is_skipped(scalars)) return;
  const double t = static_cast<double>(*applied_updates) + 1.0;
  const double beta2t = 1.0 - std::pow(t, settings.decay_rate);
  for (const AdafactorParameter& p : parameters) {
    check_parameter(p);
    if (elements(p) == 0) continue;
    AdafactorStep step = place(p, workspace);
    step.gradient = gradient_form(scalars);
    step.gradient_epsilon = static_cast<float>(settings.gradient_epsilon);
    step.beta2t = static_cast<float>(beta2t);
    step.beta2t_rest = static_cast<float>(1.0 - beta2t);
    step.beta1 = static_cast<float>(settings.beta1.value_or(0));
    step.beta1_rest = static_cast<float>(1.0 - settings.beta1.value_or(0));
    const double rate = learning_rate_of(p, settings, static_cast<double>(*scalars.learning_rate), t, step);
    const double clipping = update_moments(p, step) / settings.clip_threshold;
    step.scale = static_cast<float>(clipping < 1.0 ? rate : rate / clipping);
    step.decay = static_cast<float>(1.0 - static_cast<double>(p.weight_decay) * rate);
    for_chunks(p, step, HWY_DYNAMIC_DISPATCH(apply_updates));
  }
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
