// Sums whose order of additions is fixed for any number of threads: partial sums over chunks of fixed size go
// into the caller's workspace and are added in the order of the chunks.
//
// R rows, N columns, row-major and dense. Storage is float32, bfloat16 or float16 (checked: InternalError).
// Workspaces need 8-byte alignment and hold nothing between calls; their sizes are pure functions of the
// shapes. Nothing is allocated.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace shoehorn::cpu {

// ---- Sums over rows: gradients of biases

struct ColumnSum {
  DType dtype;
  int64_t rows;
  int64_t columns;
  const void* x;    // [R, N]
  float* sum;       // [N]
  bool accumulate;  // add to `sum` instead of overwriting it
  void* workspace;  // column_sum_workspace_bytes(R, N)
};
int64_t column_sum_workspace_bytes(int64_t rows, int64_t columns);
void column_sum(const ColumnSum& arguments);

// The last step of every column sum: sum[n] (+)= partial[0][n] + partial[1][n] + … in that order. partials is
// [chunks, stride]; the first N of each chunk are read. Without chunks the sum is zero.
void add_partials(const float* partials, int64_t chunks, int64_t stride, int64_t columns, bool accumulate,
                  float* sum);

// ---- Sums over many tensors

struct TensorView {
  DType dtype;
  int64_t count;
  const void* data;  // [count]
};

// total[0] = sum of the squares of all elements, in double precision: the square of the global gradient norm.
int64_t sum_of_squares_workspace_bytes(std::span<const TensorView> tensors);
void sum_of_squares(std::span<const TensorView> tensors, double* total, void* workspace);

// torch.nn.utils.clip_grad_norm_: norm = sqrt(sum_of_squares), coefficient = min(1, max_norm / (norm +
// 1e-6)). A NaN norm gives a NaN coefficient. max_norm <= 0 switches clipping off: the coefficient is 1. If
// given, `unscale` [1] is 1 / loss scale: then the norm is that of the unscaled gradients, and the
// coefficient is multiplied by it.
void clip_coefficient(const double* sum_of_squares, const float* unscale, float max_norm, float* norm,
                      float* coefficient);

}  // namespace shoehorn::cpu
