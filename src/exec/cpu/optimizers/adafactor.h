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
// rms(u) and rms(w) are over the whole parameter. A gradient is read twice, for its moments and for the
// update. That is enough, because a row's moment is known once the row is read, and mean(row) is a common
// factor:
//
//   sum of u^2 = mean(row) * sum over columns of (sum over rows of g^2 / row) / col
//
// The inner sums over rows are taken along with those of s.
//
// Sums over rows are taken in chunks of fixed size, so results do not depend on the number of threads.
// Nothing is allocated.
#pragma once

#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// One parameter: matrices [M, R, C], or a vector (M = R = 1) whose second moment is not factored.
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
};

// For the largest parameter.
int64_t adafactor_workspace_bytes(int64_t matrices, int64_t rows, int64_t columns);
void adafactor_update(std::span<const AdafactorParameter> parameters, const AdafactorSettings& settings,
                      const UpdateScalars& scalars, const uint32_t* applied_updates, void* workspace);

}  // namespace shoehorn::cpu
