// Layer normalization, alone and fused with the bias, dropout and residual before it in a transformer block.
//
// R rows, H hidden, row-major and dense. x, y and their gradients are stored as `dtype` (float32, bfloat16 or
// float16, checked: InternalError). Parameters, statistics, parameter gradients and arithmetic are float32. H
// is any positive number. Parameter gradients are summed over rows in chunks of fixed size, so results do not
// depend on the number of threads. Nothing is allocated; workspaces need 4-byte alignment and hold nothing
// between calls.
//
//   mean = sum x / H,  rstd = 1 / sqrt(sum (x - mean)^2 / H + epsilon),  y = (x - mean) rstd gamma + beta
//
// after Ba, Kiros and Hinton, "Layer normalization" (2016), as torch.nn.functional.layer_norm.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "exec/cpu/elementwise/elementwise.h"

namespace shoehorn::cpu {

struct LayerNormForward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  float epsilon;
  const void* x;       // [R, H]
  const float* gamma;  // [H]
  const float* beta;   // [H]
  void* y;             // [R, H]; may be x
  float* mean;         // [R]
  float* rstd;         // [R]
};
void layer_norm_forward(const LayerNormForward& arguments);

// Recomputes y bit for bit from what a forward kept; z is its x, or the sum that it normalized.
struct LayerNormOutput {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  const void* z;       // [R, H]
  const float* mean;   // [R]
  const float* rstd;   // [R]
  const float* gamma;  // [H]
  const float* beta;   // [H]
  void* y;             // [R, H]; may be z
};
void layer_norm_output(const LayerNormOutput& arguments);

// True: the gradient is added to the existing one; false: it overwrites it.
struct NormAccumulation {
  bool dgamma = false;
  bool dbeta = false;
  bool dbias = false;
};

// dx may be dy or x.
struct LayerNormBackward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  const void* dy;      // [R, H]
  const void* x;       // [R, H]
  const float* mean;   // [R]
  const float* rstd;   // [R]
  const float* gamma;  // [H]
  void* dx;            // [R, H]
  float* dgamma;       // [H]
  float* dbeta;        // [H]
  NormAccumulation accumulate;
  void* workspace;  // layer_norm_backward_workspace_bytes(R, H)
};
int64_t layer_norm_backward_workspace_bytes(int64_t rows, int64_t hidden);
void layer_norm_backward(const LayerNormBackward& arguments);

// z = residual + dropout(x + bias), rounded to storage; y = layer_norm(z). The statistics are of the rounded
// z, which the backward reads. z may be x or residual.
struct BiasDropoutResidualLayerNormForward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  float epsilon;
  Dropout dropout;
  const void* x;         // [R, H]
  const float* bias;     // [H], or null: none
  const void* residual;  // [R, H]
  const float* gamma;    // [H]
  const float* beta;     // [H]
  void* z;               // [R, H]
  void* y;               // [R, H]
  float* mean;           // [R]
  float* rstd;           // [R]
};
void bias_dropout_residual_layer_norm_forward(const BiasDropoutResidualLayerNormForward& arguments);

// dresidual = dz = the gradient through the normalization (+ dz_addend); dx = mask dz / (1 - p); dbias =
// column sums of dx, taken before dx is rounded to storage. Outputs may be any of the inputs dy, z,
// dz_addend.
struct BiasDropoutResidualLayerNormBackward {
  DType dtype;
  int64_t rows;
  int64_t hidden;
  Dropout dropout;
  const void* dy;         // [R, H]
  const void* dz_addend;  // [R, H] another gradient of z (pre-norm blocks), or null: none
  const void* z;          // [R, H]
  const float* mean;      // [R]
  const float* rstd;      // [R]
  const float* gamma;     // [H]
  void* dresidual;        // [R, H]
  void* dx;               // [R, H]; null: not written (without dropout it equals dresidual)
  float* dbias;           // [H], or null: none
  float* dgamma;          // [H]
  float* dbeta;           // [H]
  NormAccumulation accumulate;
  void* workspace;  // bias_dropout_residual_layer_norm_backward_workspace_bytes(R, H)
};
int64_t bias_dropout_residual_layer_norm_backward_workspace_bytes(int64_t rows, int64_t hidden);
void bias_dropout_residual_layer_norm_backward(const BiasDropoutResidualLayerNormBackward& arguments);

}  // namespace shoehorn::cpu
