// Optimizer updates over lists of tensors, in one pass over memory.
//
// A weight is float32, a split master (exec/cpu/elementwise/elementwise.h) whose high half the products read, or a
// bfloat16 without a master: read as it is, and what an update makes of it in float32 is rounded
// stochastically (base/bfloat16.h) with bits that depend on seed, step, parameter and element alone.
// Gradients are float32, bfloat16 or float16 (checked: InternalError), read only and left as they are; state
// is float32. Every element is computed on its own: results depend neither on the number of threads nor on
// how a list is cut into tensors. Scalars lie in memory that earlier operations of the step wrote. Nothing is
// allocated.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "base/bfloat16.h"
#include "base/dtype.h"
#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// Which random bits round a weight: base/philox.h.
struct Rounding {
  uint64_t seed = 0;
  uint32_t stream_id = 0;          // of the parameter
  int64_t first_element = 0;       // of the parameter, at which the weight begins
  const uint32_t* step = nullptr;  // [1]
};

// Exactly one of the three forms.
struct WeightView {
  float* value = nullptr;    // [count]
  bfloat16* high = nullptr;  // [count] with a rest or a rounding
  int16_t* rest = nullptr;   // [count]
  Rounding rounding = {};    // of a weight without a master; no step: none
};

// Scalars every update reads.
struct UpdateScalars {
  const float* learning_rate;             // [1]
  const float* gradient_scale = nullptr;  // [1] multiplied into gradients (a clip coefficient); null: 1
  const int32_t* skip = nullptr;          // [1] not zero: leave everything as it is; null: never
  // Elements of scaled gradients are cut at ± this.
  float max_gradient = std::numeric_limits<float>::infinity();
};

inline bool is_skipped(const UpdateScalars& scalars) {
  return scalars.skip != nullptr && *scalars.skip != 0;
}

// What updates make of a gradient: its multiple, cut element by element.
struct GradientForm {
  float scale;
  float most;
};
inline GradientForm gradient_form(const UpdateScalars& scalars) {
  return {scalars.gradient_scale == nullptr ? 1.0F : *scalars.gradient_scale, scalars.max_gradient};
}

struct StatefulTensor {
  int64_t count;
  WeightView weight;
  DType gradient_dtype;
  const void* gradient;            // [count]
  std::array<float*, 3> states{};  // [count] each, in the order that each update names; null: not kept
  float weight_decay = 0;
};

// What decoupled weight decay multiplies a weight by.
inline float weight_factor(double learning_rate, float weight_decay) {
  return static_cast<float>(1.0 - learning_rate * double{weight_decay});
}

// InternalError naming `what` unless a weight has one form and its gradient a storage type.
void check_update(const WeightView& weight, DType gradient_dtype, int64_t count, const char* what);
// The same of every tensor, and that each has the first `states` of its states and no more.
void check_updates(std::span<const StatefulTensor> tensors, size_t states, const char* what);

// ---- AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", in the arithmetic of
// torch.optim.AdamW; states: m, v
//
//   w *= 1 - lr * weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// t counts from 1: it is one more than the updates that were applied before this one.

// What the updates of a step have in common, worked out in double as PyTorch does.
struct AdamWStep {
  double learning_rate;
  float beta1;
  float beta1_rest;  // 1 - beta1
  float beta2;
  float beta2_rest;  // 1 - beta2
  float epsilon;
  float step_size;     // lr / (1 - beta1^t)
  float second_scale;  // 1 / sqrt(1 - beta2^t)
  GradientForm gradient;
};
AdamWStep adamw_step(const AdamWSettings& settings, const UpdateScalars& scalars, uint32_t applied_updates);

void adamw_update(std::span<const StatefulTensor> tensors, const AdamWSettings& settings,
                  const UpdateScalars& scalars, const uint32_t* applied_updates);

// ---- SGD with momentum, as torch.optim.SGD with dampening 0; states: with momentum b
//
//   g += weight_decay w;  b = momentum b + g;  w -= lr (nesterov ? g + momentum b : b)
//
// The buffer starts as zeros. Without momentum there is none, and w -= lr g.

void sgd_update(std::span<const StatefulTensor> tensors, const SgdSettings& settings,
                const UpdateScalars& scalars);

}  // namespace shoehorn::cpu
