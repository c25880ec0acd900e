// Root-mean-square normalization: layer normalization without the mean and the shift; alone and fused with the residual
// sum before it.
//
// R rows, H hidden, row-major and dense. x, y and their gradients are stored as `dtype` (float32, bfloat16 or
// float16, checked: InternalError). gamma, statistics, dgamma and arithmetic are float32. H is any positive
// number. dgamma is summed over rows in chunks of fixed size, so it does not depend on the number of threads.
// Nothing is allocated; the workspace needs 4-byte alignment and holds nothing between calls.
//
//   rstd = 1 / sqrt(sum x^2 / H + epsilon),  y = x rstd gamma
//
// after Zhang and Sennrich, "Root mean square layer normalization" (2019), as torch.nn.functional.rms_norm.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

struct RmsNormForward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  float epsilon;
  const void* x;       // [R, H]
  const float* gamma;  // [H]
  void* y;             // [R, H]; may be x
  float* rstd;         // [R]
  // Rows are heads of tokens, `groups` each, and y is turned behind the norm by the token's row of a rotary table
  // (elementwise/rotary.h): H / 2 cosines, then as many sines; null: none.
  const float* table = nullptr;  // [R / groups, H]
  int64_t groups = 1;
};
void rms_norm_forward(const RmsNormForward& arguments);

// z = x + residual, rounded to storage; y = rms_norm(z). The statistics are of the rounded z, which the backward reads.
// z may be x or residual.
struct ResidualRmsNormForward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  float epsilon;
  const void* x;         // [R, H]
  const void* residual;  // [R, H]
  const float* gamma;    // [H]
  void* z;               // [R, H]
  void* y;               // [R, H]
  float* rstd;           // [R]
};
void residual_rms_norm_forward(const ResidualRmsNormForward& arguments);

// dx = the gradient through the normalization (+ dx_addend). dx may be dy, x or dx_addend.
struct RmsNormBackward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  const void* dy;         // [R, H]
  const void* dx_addend;  // [R, H] another gradient of x (pre-norm blocks), or null: none
  const void* x;          // [R, H]
  const float* rstd;      // [R]
  const float* gamma;     // [H]
  void* dx;               // [R, H]
  float* dgamma;          // [H]
  bool accumulate;        // add to dgamma rather than write it
  void* workspace;        // rms_norm_backward_workspace_bytes(R, H)
  // As in the forward: dy is of what was turned. Then there is no addend.
  const float* table = nullptr;
  int64_t groups = 1;
};
int64_t rms_norm_backward_workspace_bytes(int64_t rows, int64_t hidden);
void rms_norm_backward(const RmsNormBackward& arguments);

}  // namespace shoehorn::cpu
