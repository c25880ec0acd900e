#include "exec/cpu/adafactor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/cpu/parallel.h"

#include "exec/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/adafactor.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/weight_forms-inl.h"

// What does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_ADAFACTOR_COMMON_
#define SHOEHORN_EXEC_CPU_ADAFACTOR_COMMON_

namespace shoehorn::cpu {

// The scalars of one parameter's update, and its share of the workspace.
struct AdafactorStep {
  float gradient_scale = 1;
  float gradient_epsilon = 0;
  float beta2t = 0;
  float beta2t_rest = 0;
  float beta1 = 0;
  float beta1_rest = 0;
  float scale = 0;                   // of u: lr_t over the clipping
  float decay = 1;                   // 1 - weight_decay lr_t
  float* column_factor = nullptr;    // [columns] 1 / sqrt(col), or 1 / sqrt(v)
  float* row_factor = nullptr;       // [rows] 1 / sqrt(row / mean(row)); 1 for a vector
  double* weight_squares = nullptr;  // [chunks]
  double* update_squares = nullptr;  // [chunks]
  float* column_sums = nullptr;      // [chunks, columns]
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
void square_weights(const AdafactorParameter& p, const AdafactorStep& step, int64_t chunk, int64_t begin,
                    int64_t end) {
  double total = 0;
  with_form(p.weight, [&](auto weight) {
    for (int64_t row = begin; row < end; ++row) {
      total += static_cast<double>(
          sum_lanes(fold_columns(p.columns, [&](FloatVector so_far, int64_t i, auto lanes) {
            const FloatVector w = weight.get(row * p.columns + i, lanes);
            return hn::MulAdd(w, w, so_far);
          })));
    }
  });
  step.weight_squares[chunk] = total;
}

// Row moments of a chunk, and its share of the sums over columns.
void second_moments(const AdafactorParameter& p, const AdafactorStep& step, int64_t chunk, int64_t begin,
                    int64_t end) {
  float* sums = step.column_sums + chunk * p.columns;
  for_columns(0, p.columns, [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), sums + i, lanes); });
  for (int64_t row = begin; row < end; ++row) {
    const float* gradient = p.gradient + row * p.columns;
    const FloatVector sum = fold_columns(p.columns, [&](FloatVector so_far, int64_t i, auto lanes) {
      const FloatVector g = hn::Mul(load(gradient + i, lanes), set(step.gradient_scale));
      const FloatVector square = keep_live(hn::MulAdd(g, g, set(step.gradient_epsilon)), lanes);
      store(hn::Add(load(sums + i, lanes), square), sums + i, lanes);
      return hn::Add(so_far, square);
    });
    if (p.row_moment != nullptr) {
      const float mean = sum_lanes(sum) / static_cast<float>(p.columns);
      p.row_moment[row] = p.row_moment[row] * step.beta2t + mean * step.beta2t_rest;
    }
  }
}

// The other moments from the chunks' sums, and what u multiplies by.
void finish_moments(const AdafactorParameter& p, const AdafactorStep& step, int64_t chunks) {
  float* moment = p.column_moment != nullptr ? p.column_moment : p.second_moment;
  const float share = 1.0F / static_cast<float>(p.rows);
  for_columns(0, p.columns, [&](int64_t i, auto lanes) {
    FloatVector sum = hn::Zero(FloatTag());
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      sum = hn::Add(sum, load(step.column_sums + chunk * p.columns + i, lanes));
    const FloatVector mean = hn::Mul(sum, set(share));
    const FloatVector next =
        hn::MulAdd(load(moment + i, lanes), set(step.beta2t), hn::Mul(mean, set(step.beta2t_rest)));
    store(next, moment + i, lanes);
    store(hn::Div(set(1.0F), hn::Sqrt(next)), step.column_factor + i, lanes);
  });
  if (p.row_moment == nullptr) {
    step.row_factor[0] = 1.0F;
    return;
  }
  double total = 0;
  for (int64_t row = 0; row < p.rows; ++row) total += static_cast<double>(p.row_moment[row]);
  const auto mean = static_cast<float>(total / static_cast<double>(p.rows));
  for (int64_t row = 0; row < p.rows; ++row)
    step.row_factor[row] = 1.0F / std::sqrt(p.row_moment[row] / mean);
}

HWY_INLINE FloatVector direction(const float* gradient, const AdafactorStep& step, FloatVector row_factor,
                                 int64_t i, auto lanes) {
  const FloatVector g = hn::Mul(load(gradient + i, lanes), set(step.gradient_scale));
  return hn::Mul(hn::Mul(row_factor, load(step.column_factor + i, lanes)), g);
}

void square_updates(const AdafactorParameter& p, const AdafactorStep& step, int64_t chunk, int64_t begin,
                    int64_t end) {
  double total = 0;
  for (int64_t row = begin; row < end; ++row) {
    const FloatVector factor = set(step.row_factor[row]);
    total +=
        static_cast<double>(sum_lanes(fold_columns(p.columns, [&](FloatVector so_far, int64_t i, auto lanes) {
          const FloatVector u = direction(p.gradient + row * p.columns, step, factor, i, lanes);
          return hn::MulAdd(u, u, so_far);
        })));
  }
  step.update_squares[chunk] = total;
}

void apply_updates(const AdafactorParameter& p, const AdafactorStep& step, int64_t, int64_t begin,
                   int64_t end) {
  with_form(p.weight, [&](auto weight) {
    for (int64_t row = begin; row < end; ++row) {
      const FloatVector factor = set(step.row_factor[row]);
      const int64_t offset = row * p.columns;
      for_columns(0, p.columns, [&](int64_t i, auto lanes) {
        FloatVector u = hn::Mul(direction(p.gradient + offset, step, factor, i, lanes), set(step.scale));
        if (p.first_moment != nullptr) {
          u = hn::MulAdd(load(p.first_moment + offset + i, lanes), set(step.beta1),
                         hn::Mul(u, set(step.beta1_rest)));
          store(u, p.first_moment + offset + i, lanes);
        }
        const FloatVector w = hn::Mul(weight.get(offset + i, lanes), set(step.decay));
        weight.put(hn::Sub(w, u), offset + i, lanes);
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
HWY_EXPORT(square_updates);
HWY_EXPORT(apply_updates);

int64_t chunks_of(int64_t rows) {
  return ceil_divide(rows, kRowsPerChunk);
}

int64_t aligned(int64_t bytes) {
  return ceil_divide(bytes, 64) * 64;
}

// Calls work(parameter, step, chunk, first row, end row) on all chunks.
template <class Work>
void for_chunks(const AdafactorParameter& p, const AdafactorStep& step, const Work& work) {
  parallel_ranges(chunks_of(p.rows), chunk_grain(p.columns), [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t begin = chunk * kRowsPerChunk;
      work(p, step, chunk, begin, std::min(p.rows, begin + kRowsPerChunk));
    }
  });
}

double root_mean_square(const double* squares, const AdafactorParameter& p) {
  double total = 0;
  for (int64_t chunk = 0; chunk < chunks_of(p.rows); ++chunk) total += squares[chunk];
  return std::sqrt(total / static_cast<double>(p.rows * p.columns));
}

AdafactorStep place(const AdafactorParameter& p, void* workspace) {
  auto* at = static_cast<std::byte*>(workspace);
  const auto take = [&](int64_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  const int64_t chunks = chunks_of(p.rows);
  AdafactorStep step;
  step.weight_squares = reinterpret_cast<double*>(take(8 * chunks));
  step.update_squares = reinterpret_cast<double*>(take(8 * chunks));
  step.row_factor = reinterpret_cast<float*>(take(4 * p.rows));
  step.column_factor = reinterpret_cast<float*>(take(4 * p.columns));
  step.column_sums = reinterpret_cast<float*>(take(4 * chunks * p.columns));
  return step;
}

double learning_rate_of(const AdafactorParameter& p, const AdafactorSettings& settings, double given,
                        double t, const AdafactorStep& step) {
  double rate = given;
  if (settings.relative_step) rate = std::min(settings.warmup_init ? 1e-6 * t : 1e-2, 1.0 / std::sqrt(t));
  if (!settings.scale_parameter) return rate;
  for_chunks(p, step, HWY_DYNAMIC_DISPATCH(square_weights));
  return rate * std::max(settings.parameter_epsilon, root_mean_square(step.weight_squares, p));
}

}  // namespace

int64_t adafactor_workspace_bytes(int64_t rows, int64_t columns) {
  const int64_t chunks = chunks_of(rows);
  return 2 * aligned(8 * chunks) + aligned(4 * rows) + aligned(4 * columns) + aligned(4 * chunks * columns);
}

void adafactor_update(std::span<const AdafactorParameter> parameters, const AdafactorSettings& settings,
                      const UpdateScalars& scalars, const uint32_t* applied_updates, void* workspace) {
  if (is_skipped(scalars)) return;
  const double t = static_cast<double>(*applied_updates) + 1.0;
  const double beta2t = 1.0 - std::pow(t, settings.decay_rate);
  for (const AdafactorParameter& p : parameters) {
    check_update(p.weight, DType::kF32, p.rows * p.columns, "adafactor");
    CHECK((p.row_moment != nullptr) == (p.column_moment != nullptr) &&
              (p.row_moment != nullptr) != (p.second_moment != nullptr) &&
              (p.second_moment == nullptr || p.rows == 1),
          "[adafactor] expected the moments of a matrix or of a vector, got neither");
    if (p.rows * p.columns == 0) continue;
    AdafactorStep step = place(p, workspace);
    step.gradient_scale = gradient_scale(scalars);
    step.gradient_epsilon = static_cast<float>(settings.gradient_epsilon);
    step.beta2t = static_cast<float>(beta2t);
    step.beta2t_rest = static_cast<float>(1.0 - beta2t);
    step.beta1 = static_cast<float>(settings.beta1.value_or(0));
    step.beta1_rest = static_cast<float>(1.0 - settings.beta1.value_or(0));
    const double rate = learning_rate_of(p, settings, static_cast<double>(*scalars.learning_rate), t, step);
    for_chunks(p, step, HWY_DYNAMIC_DISPATCH(second_moments));
    HWY_DYNAMIC_DISPATCH(finish_moments)(p, step, chunks_of(p.rows));
    for_chunks(p, step, HWY_DYNAMIC_DISPATCH(square_updates));
    const double clipping = std::max(1.0, root_mean_square(step.update_squares, p) / settings.clip_threshold);
    step.scale = static_cast<float>(rate / clipping);
    step.decay = static_cast<float>(1.0 - static_cast<double>(p.weight_decay) * rate);
    for_chunks(p, step, HWY_DYNAMIC_DISPATCH(apply_updates));
  }
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
