// Activation functions, with the bias of the preceding product or gating another value, and their gradients.
//
// R rows, F features, row-major and dense, stored as `dtype` (float32, bfloat16 or float16, checked:
// InternalError); arithmetic and bias gradients are float32. Results do not depend on the number of threads.
// Nothing is allocated; the workspace needs 4-byte alignment and holds nothing between calls.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

enum class Activation : uint8_t {
  kGelu,      // x P(N <= x), exact; "gelu" in Hugging Face's configs
  kGeluTanh,  // its tanh form; "gelu_new", "gelu_pytorch_tanh"
  kRelu,
  kSilu,
  kTanh,
};

// y = activation(x + bias)
struct BiasActivationForward {
  DType dtype;
  Activation kind;
  int64_t rows;
  int64_t features;
  const void* x;      // [R, F]
  const float* bias;  // [F], or null: none
  void* y;            // [R, F]; may be x
};
void bias_activation_forward(const BiasActivationForward& arguments);

// dx = dy activation'(x + bias); dbias = column sums of dx, taken before dx is rounded to storage.
struct BiasActivationBackward {
  DType dtype;
  Activation kind;
  int64_t rows;
  int64_t features;
  const void* dy;     // [R, F]
  const void* x;      // [R, F]
  const float* bias;  // [F], or null: none
  void* dx;           // [R, F]; may be dy or x
  float* dbias;       // [F], or null: not wanted
  bool accumulate;    // add to dbias rather than write it
  void* workspace;    // bias_activation_backward_workspace_bytes(R, F); unused without dbias
};
int64_t bias_activation_backward_workspace_bytes(int64_t rows, int64_t features);
void bias_activation_backward(const BiasActivationBackward& arguments);

// y = activation(gate) up: SwiGLU with silu, GeGLU with a gelu (Shazeer, "GLU variants improve transformer", 2020)
struct GatedActivationForward {
  DType dtype;
  Activation kind;
  int64_t count;
  const void* gate;  // [count]
  const void* up;    // [count]
  void* y;           // [count]; may be gate or up
};
void gated_activation_forward(const GatedActivationForward& arguments);

// dgate = dy up activation'(gate), dup = dy activation(gate). Each may be any of the inputs.
struct GatedActivationBackward {
  DType dtype;
  Activation kind;
  int64_t count;
  const void* dy;    // [count]
  const void* gate;  // [count]
  const void* up;    // [count]
  void* dgate;       // [count]
  void* dup;         // [count]
};
void gated_activation_backward(const GatedActivationBackward& arguments);

}  // namespace shoehorn::cpu
