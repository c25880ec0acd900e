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

// The scalars of one parameter's update, and its part of the workspace. Chunk k of a matrix is its rows from k *
// kRowsPerChunk on, at most so many; at the ends of a matrix and of a part it may have fewer.
struct AdafactorStep {
  GradientForm gradient = {};
  float gradient_epsilon = 0;
  float beta2t = 0;
  float beta2t_rest = 0;
  float beta1 = 0;
  float beta1_rest = 0;
  float scale = 0;                   // of u: lr_t over the clipping
  float decay = 1;                   // 1 - weight_decay lr_t
  const double* sums = nullptr;      // over the whole parameter
  float* column_factor = nullptr;    // [M, C] 1 / sqrt(col), or 1 / sqrt(v)
  double* weight_squares = nullptr;  // [chunks]
  double* row_moments = nullptr;     // [chunks] sums
  float* column_sums = nullptr;      // [chunks, C] of s
  float* column_shares = nullptr;    // [chunks, C] of g^2 / row
};

// Rows of one chunk, counted from the first one that is here.
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

// Sums of the squares of a chunk's weights; `columns` are here.
void square_weights(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk,
                    int64_t columns) {
  double total = 0;
  with_form(p.weight, [&](const auto& weight) {
    for (int64_t row = chunk.begin; row < chunk.end; ++row) {
      total +=
          static_cast<double>(sum_lanes(fold_columns(columns, [&](FloatVector so_far, int64_t i, auto lanes) {
            const FloatVector w = weight.get(row * columns + i, lanes);
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

// The contribution of kRows rows to a chunk's sums over rows; gives the sum of their next moments. The rows are read a
// second time while they are in the cache. Several rows together load and store the sums only once.
template <int64_t kRows>
HWY_INLINE double add_rows(const AdafactorParameter& p, const AdafactorStep& step, int64_t row, float* sums,
                           float* shares) {
  float roots[kRows];
  double moments = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    const float moment = next_row_moment(p, step, row + r);
    moments += static_cast<double>(moment);
    roots[r] = 1.0F / std::sqrt(moment);
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
  return moments;
}

// A chunk's sums over its rows.
void sum_rows(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk, int64_t) {
  constexpr int64_t kTogether = 4;
  float* sums = step.column_sums + chunk.index * p.columns;
  float* shares = step.column_shares + chunk.index * p.columns;
  std::memset(sums, 0, static_cast<size_t>(p.columns) * sizeof(float));
  std::memset(shares, 0, static_cast<size_t>(p.columns) * sizeof(float));
  double moments = 0;
  int64_t row = chunk.begin;
  for (; row + kTogether <= chunk.end; row += kTogether)
    moments += add_rows<kTogether>(p, step, row, sums, shares);
  for (; row < chunk.end; ++row) moments += add_rows<1>(p, step, row, sums, shares);
  step.row_moments[chunk.index] = moments;
}

HWY_INLINE FloatVector next_second_moment(const AdafactorParameter& p, const AdafactorStep& step,
                                          FloatVector g, int64_t i, auto lanes) {
  const FloatVector square = hn::MulAdd(g, g, set(step.gradient_epsilon));
  return hn::MulAdd(load(p.second_moment + i, lanes), set(step.beta2t),
                    hn::Mul(square, set(step.beta2t_rest)));
}

// Of a vector: the sum of u^2 over the elements that are here.
double sum_vector(const AdafactorParameter& p, const AdafactorStep& step, int64_t elements) {
  double squares = 0;
  for_columns(0, elements, [&](int64_t i, auto lanes) {
    const FloatVector g = formed(load(p.gradient + i, lanes), step.gradient);
    const FloatVector square = hn::Mul(g, hn::Div(g, next_second_moment(p, step, g, i, lanes)));
    squares += static_cast<double>(sum_lanes(keep_live(square, lanes)));
  });
  return squares;
}

// The next moments of a vector's elements that are here, and what u multiplies by.
void finish_vector(const AdafactorParameter& p, const AdafactorStep& step, int64_t elements) {
  for_columns(0, elements, [&](int64_t i, auto lanes) {
    const FloatVector g = formed(load(p.gradient + i, lanes), step.gradient);
    const FloatVector next = next_second_moment(p, step, g, i, lanes);
    store(next, p.second_moment + i, lanes);
    store(hn::Div(set(1.0F), hn::Sqrt(next)), step.column_factor + i, lanes);
  });
}

// Row moments of a chunk, and its weights. A row is read a second time while it is in the cache.
void apply_updates(const AdafactorParameter& p, const AdafactorStep& step, const RowChunk& chunk,
                   int64_t columns) {
  const float* column_factor = step.column_factor + chunk.matrix * columns;
  float row_mean = 1.0F;
  if (p.row_moment != nullptr) {
    const double total = step.sums[(chunk.matrix + 1) * (2 * columns + 1) - 1];
    row_mean = static_cast<float>(total / static_cast<double>(p.rows));
  }
  with_form(p.weight, [&](auto& weight) {
    for (int64_t row = chunk.begin; row < chunk.end; ++row) {
      float factor = 1.0F;
      if (p.row_moment != nullptr) {
        p.row_moment[row] = next_row_moment(p, step, row);
        factor = 1.0F / std::sqrt(p.row_moment[row] / row_mean);
      }
      const FloatVector row_factor = set(factor);
      const int64_t offset = row * columns;
      for_weight_elements(weight, offset, offset + columns, [&](int64_t at, auto lanes) {
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
HWY_EXPORT(sum_rows);
HWY_EXPORT(sum_vector);
HWY_EXPORT(finish_vector);
HWY_EXPORT(apply_updates);

int64_t aligned(int64_t bytes) {
  return ceil_divide(bytes, 64) * 64;
}

// Of the whole parameter.
int64_t elements(const AdafactorParameter& p) {
  return p.matrices * p.rows * p.columns;
}

bool is_vector(const AdafactorParameter& p) {
  return p.row_moment == nullptr;
}

// The rows that are here; of a vector one row, of the columns that are here.
AdafactorPart rows_here(const AdafactorParameter& p) {
  return p.part && !is_vector(p) ? *p.part : AdafactorPart{0, p.matrices * p.rows};
}
int64_t columns_here(const AdafactorParameter& p) {
  return p.part && is_vector(p) ? p.part->count : p.columns;
}

AdafactorSums sums_of(const AdafactorParameter& p, const AdafactorSettings& settings) {
  return {is_vector(p) ? 0 : p.matrices, p.columns, settings.scale_parameter};
}

// The chunks that a part has rows of, numbered from those of the whole parameter's first row on.
class RowChunks {
 public:
  explicit RowChunks(const AdafactorParameter& p)
      : rows_(p.rows), of_matrix_(ceil_divide(p.rows, kRowsPerChunk)), here_(rows_here(p)) {
    if (here_.count == 0) return;
    first_ = chunk_of(here_.first);
    count_ = chunk_of(here_.first + here_.count - 1) + 1 - first_;
  }

  int64_t count() const { return count_; }
  RowChunk operator[](int64_t index) const {
    const int64_t matrix = (first_ + index) / of_matrix_;
    const int64_t begin = (first_ + index) % of_matrix_ * kRowsPerChunk;
    const int64_t end = std::min(rows_, begin + kRowsPerChunk);
    return {index, matrix, std::max(matrix * rows_ + begin - here_.first, int64_t{0}),
            std::min(matrix * rows_ + end - here_.first, here_.count)};
  }

 private:
  int64_t chunk_of(int64_t row) const { return row / rows_ * of_matrix_ + row % rows_ / kRowsPerChunk; }

  int64_t rows_;
  int64_t of_matrix_;
  AdafactorPart here_;
  int64_t first_ = 0;
  int64_t count_ = 0;
};

// Calls work(parameter, step, chunk, columns that are here) on all chunks.
template <class Work>
void for_chunks(const AdafactorParameter& p, const AdafactorStep& step, const Work& work) {
  const RowChunks chunks(p);
  const int64_t columns = columns_here(p);
  parallel_ranges(chunks.count(), chunk_grain(columns), [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) work(p, step, chunks[index], columns);
  });
}

// Adds the chunks of each matrix.
void add_chunks(const AdafactorParameter& p, const AdafactorStep& step, double* sums) {
  const RowChunks chunks(p);
  const int64_t of_matrix = sums_of(p, {}).of_matrix();
  for (int64_t i = 0; i < chunks.count(); ++i)
    sums[(chunks[i].matrix + 1) * of_matrix - 1] += step.row_moments[i];
  parallel_ranges(p.columns, row_grain(2 * chunks.count()), [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < chunks.count(); ++i) {
      double* of_columns = sums + chunks[i].matrix * of_matrix;
      double* shares = of_columns + p.columns;
      for (int64_t column = first; column < last; ++column) {
        of_columns[column] += static_cast<double>(step.column_sums[i * p.columns + column]);
        shares[column] += static_cast<double>(step.column_shares[i * p.columns + column]);
      }
    }
  });
}

// All column moments of a matrix, and what u multiplies by. Gives the sum of u^2.
double finish_columns(const AdafactorParameter& p, const AdafactorStep& step, int64_t matrix) {
  const double* sums = step.sums + matrix * (2 * p.columns + 1);
  const double* shares = sums + p.columns;
  const double rows = static_cast<double>(p.rows);
  const double row_mean = sums[2 * p.columns] / rows;
  float* moment = p.column_moment + matrix * p.columns;
  float* factor = step.column_factor + matrix * p.columns;
  double squares = 0;
  for (int64_t i = 0; i < p.columns; ++i) {
    const auto mean = static_cast<float>(sums[i] / rows);
    moment[i] = moment[i] * step.beta2t + mean * step.beta2t_rest;
    factor[i] = 1.0F / std::sqrt(moment[i]);
    squares += shares[i] * row_mean / static_cast<double>(moment[i]);
  }
  return squares;
}

// Of u, over the whole parameter; makes what it multiplies by.
double root_mean_square_of_update(const AdafactorParameter& p, const AdafactorStep& step) {
  double squares = 0;
  if (is_vector(p)) {
    squares = step.sums[0];
    HWY_DYNAMIC_DISPATCH(finish_vector)(p, step, columns_here(p));
  } else {
    for (int64_t matrix = 0; matrix < p.matrices; ++matrix) squares += finish_columns(p, step, matrix);
  }
  return std::sqrt(squares / static_cast<double>(elements(p)));
}

double learning_rate_of(const AdafactorParameter& p, const AdafactorSettings& settings, double given,
                        double t, const double* sums) {
  const double rate = settings.relative_step ? relative_step(settings, t) : given;
  if (!settings.scale_parameter) return rate;
  const double squares = sums[sums_of(p, settings).weight_squares()];
  return rate * std::max(settings.parameter_epsilon, std::sqrt(squares / static_cast<double>(elements(p))));
}

AdafactorStep step_of(const AdafactorSettings& settings, const UpdateScalars& scalars, double t) {
  const double beta2t = 1.0 - std::pow(t, settings.decay_rate);
  AdafactorStep step;
  step.gradient = gradient_form(scalars);
  step.gradient_epsilon = static_cast<float>(settings.gradient_epsilon);
  step.beta2t = static_cast<float>(beta2t);
  step.beta2t_rest = static_cast<float>(1.0 - beta2t);
  step.beta1 = static_cast<float>(settings.beta1.value_or(0));
  step.beta1_rest = static_cast<float>(1.0 - settings.beta1.value_or(0));
  return step;
}

void check_parameter(const AdafactorParameter& p) {
  check_update(p.weight, DType::kF32, rows_here(p).count * columns_here(p), "adafactor");
  CHECK((p.row_moment != nullptr) == (p.column_moment != nullptr) &&
            (p.row_moment != nullptr) != (p.second_moment != nullptr) &&
            (p.second_moment == nullptr || p.matrices * p.rows == 1),
        "[adafactor] expected the moments of a matrix or of a vector, got neither");
}

int64_t chunk_bytes(int64_t chunks, int64_t columns) {
  return 2 * aligned(8 * chunks) + 2 * aligned(4 * chunks * columns);
}

}  // namespace

int64_t adafactor_sums_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns, int64_t part_rows) {
  if (matrices * rows == 0) return 0;
  const int64_t all = matrices * ceil_divide(rows, kRowsPerChunk);
  // At most one more chunk for where a part begins, and one for each matrix that it has rows of.
  const int64_t touched = std::min(matrices, part_rows / rows + 2);
  return chunk_bytes(std::min(all, part_rows / kRowsPerChunk + 1 + touched), columns);
}

int64_t adafactor_part_workspace_bytes(int64_t matrices, int64_t columns) {
  return aligned(4 * matrices * columns);
}

int64_t adafactor_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns) {
  return aligned(8 * AdafactorSums{matrices, columns, true}.size()) +
         std::max(adafactor_sums_workspace_bytes(matrices, rows, columns, matrices * rows),
                  adafactor_part_workspace_bytes(matrices, columns));
}

void adafactor_sums(const AdafactorParameter& p, const AdafactorSettings& settings,
                    const UpdateScalars& scalars, const uint32_t* applied_updates, double* sums,
                    void* workspace) {
  const AdafactorSums layout = sums_of(p, settings);
  std::fill_n(sums, layout.size(), 0.0);
  AdafactorStep step = step_of(settings, scalars, static_cast<double>(*applied_updates) + 1.0);
  const int64_t chunks = RowChunks(p).count();
  auto* at = static_cast<std::byte*>(workspace);
  const auto take = [&](int64_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  step.weight_squares = reinterpret_cast<double*>(take(8 * chunks));
  if (is_vector(p)) {
    sums[0] = HWY_DYNAMIC_DISPATCH(sum_vector)(p, step, columns_here(p));
  } else {
    step.row_moments = reinterpret_cast<double*>(take(8 * chunks));
    step.column_sums = reinterpret_cast<float*>(take(4 * chunks * p.columns));
    step.column_shares = reinterpret_cast<float*>(take(4 * chunks * p.columns));
    for_chunks(p, step, HWY_DYNAMIC_DISPATCH(sum_rows));
    add_chunks(p, step, sums);
  }
  if (!settings.scale_parameter) return;
  for_chunks(p, step, HWY_DYNAMIC_DISPATCH(square_weights));
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    sums[layout.weight_squares()] += step.weight_squares[chunk];
}

void adafactor_update_part(const AdafactorParameter& p, const AdafactorSettings& settings,
                           const UpdateScalars& scalars, const uint32_t* applied_updates, const double* sums,
                           void* workspace) {
  if (is_skipped(scalars)) return;
  check_parameter(p);
  const double t = static_cast<double>(*applied_updates) + 1.0;
  AdafactorStep step = step_of(settings, scalars, t);
  step.sums = sums;
  step.column_factor = static_cast<float*>(workspace);
  const double rate = learning_rate_of(p, settings, static_cast<double>(*scalars.learning_rate), t, sums);
  const double clipping = root_mean_square_of_update(p, step) / settings.clip_threshold;
  step.scale = static_cast<float>(clipping < 1.0 ? rate : rate / clipping);
  step.decay = static_cast<float>(1.0 - static_cast<double>(p.weight_decay) * rate);
  for_chunks(p, step, HWY_DYNAMIC_DISPATCH(apply_updates));
}

void adafactor_update(std::span<const AdafactorParameter> parameters, const AdafactorSettings& settings,
                      const UpdateScalars& scalars, const uint32_t* applied_updates, void* workspace) {
  if (is_skipped(scalars)) return;
  for (const AdafactorParameter& p : parameters) {
    check_parameter(p);
    if (elements(p) == 0) continue;
    auto* sums = static_cast<double*>(workspace);
    std::byte* rest = static_cast<std::byte*>(workspace) + aligned(8 * sums_of(p, settings).size());
    adafactor_sums(p, settings, scalars, applied_updates, sums, rest);
    adafactor_update_part(p, settings, scalars, applied_updates, sums, rest);
  }
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
