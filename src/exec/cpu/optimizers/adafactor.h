// Adafactor (Shazeer and Stern, "Adaptive learning rates with sublinear memory cost", 2018) with the
// arithmetic of transformers.optimization.Adafactor.
//
//   beta2t = 1 - t^decay_rate;  s = g^2 + gradient_epsilon
//   matrix:  row = beta2t row + (1 - beta2t) mean of s over columns;  col likewise over rows
//            u = g / sqrt(row / mean(row)) / sqrt(col)
//   more dimensions: matrices of the last two, each with its own row and col
//   vector:  v = beta2t v + (1 - beta2t) s;  u = g / sqrt(v)
//   u *= lr_t / max(1, rms(u) / clip_threshold);  with beta1: m = beta1 m + (1 - beta1) u, and u = m
//   w -= weight_decay lr_t w;  w -= u
//
// lr_t is lr, or with relative_step min(warmup_init ? 1e-6 t : 1e-2, 1 / sqrt(t)); with scale_parameter it is
// multiplied by max(parameter_epsilon, rms(w)). t is the number of this update; the first is 1.
//
// rms(u) and rms(w) are over the whole parameter. A gradient is read from memory twice, for sums over the whole
// parameter and for the update. That is enough, because a row's moment is known once the row is read, and mean(row) is a
// common factor:
//
//   sum of u^2 = mean(row) * sum over columns of (sum over rows of g^2 / row) / col
//
// The inner sums over rows are taken along with those of s. A process may have some rows of a parameter, or some elements
// of a vector: its sums (adafactor_sums) are added to those of the other processes, in double, and each makes the update of
// what it has by the sums of all. Column moments are whole everywhere; row moments are there for the rows that are.
//
// Sums over rows are taken in chunks of fixed size, which begin at the same rows of a matrix wherever it is cut, and chunks
// are added in double. So results do not depend on the number of threads. Nothing is allocated.
#pragma once

#include <optional>

#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "graph/optimizer_settings.h"
#include "ops/adafactor_sums.h"

namespace shoehorn::cpu {

// What of a parameter is here: `count` rows from `first` on, counted over all of its matrices; of a vector, elements.
struct AdafactorPart {
  int64_t first = 0;
  int64_t count = 0;
};

// One parameter: matrices [M, R, C], or a vector (M = R = 1) whose second moment is not factored. With a part, all pointers
// but column_moment's are to the rows, or the elements, that are here.
struct AdafactorParameter {
  int64_t matrices = 1;
  int64_t rows;
  int64_t columns;
  WeightView weight;      // [M, R, C]
  const float* gradient;  // [M, R, C]
  float* row_moment;      // [M, R]; null: a vector
  float* column_moment;   // [M, C]; null: a vector
  float* second_moment;   // [C], vectors only; null: matrices
  float* first_moment;    // [M, R, C]; null without beta1
  float weight_decay;
  std::optional<AdafactorPart> part = {};  // none: all of it
};

// For the largest parameter.
int64_t adafactor_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns);
void adafactor_update(std::span<const AdafactorParameter> parameters, const AdafactorSettings& settings,
                      const UpdateScalars& scalars, const uint32_t* applied_updates, void* workspace);

// The sums of a parameter's part, as ops/adafactor_sums.h lays them out; zeros of one that is empty. Changes nothing else.
// Weights are read with scale_parameter only.
void adafactor_sums(const AdafactorParameter& parameter, const AdafactorSettings& settings,
                    const UpdateScalars& scalars, const uint32_t* applied_updates, double* sums,
                    void* workspace);
// For any part of at most so many rows (of a vector: one).
int64_t adafactor_sums_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns, int64_t part_rows);

// The update of a parameter's part, with the sums over all parts.
void adafactor_update_part(const AdafactorParameter& parameter, const AdafactorSettings& settings,
                           const UpdateScalars& scalars, const uint32_t* applied_updates, const double* sums,
                           void* workspace);
// `columns` of a vector: of the part.
int64_t adafactor_part_workspace_bytes(int64_t matrices, int64_t columns);

}  // namespace shoehorn::cpu
