// Optimizer updates over lists of tensors, in one pass over memory.
//
// A weight has one of three forms: float32; a split master (exec/cpu/elementwise/elementwise.h), whose high
// half products read; or a bfloat16 without a master. An update of the last computes in float32 and rounds
// stochastically (base/bfloat16.h), with bits that depend only on seed, step, parameter and element.
// Gradients are float32, bfloat16 or float16 (checked: InternalError) and are not changed; states are
// float32. Every element is computed independently, so results depend neither on the number of threads nor on
// how a list is cut into tensors. The scalars are in memory that earlier nodes of the step wrote. Nothing is
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

// Selects the random bits that round a weight: base/philox.h.
struct Rounding {
  uint64_t seed = 0;
  uint32_t stream_id = 0;          // of the parameter
  int64_t first_element = 0;       // of the parameter: the index at which the weight begins
  const uint32_t* step = nullptr;  // [1]
};

// A weight in exactly one of the three forms.
struct WeightView {
  float* value = nullptr;    // [count]
  bfloat16* high = nullptr;  // [count], with `rest` or `rounding`
  int16_t* rest = nullptr;   // [count]
  Rounding rounding = {};    // weights without a master; a null step: none
};

// The scalars that every update reads.
struct UpdateScalars {
  const float* learning_rate;             // [1]
  const float* gradient_scale = nullptr;  // [1] factor of gradients (a clip coefficient); null: 1
  const int32_t* skip = nullptr;          // [1] not zero: change nothing; null: never
  // Elements of scaled gradients are clamped to ± this.
  float max_gradient = std::numeric_limits<float>::infinity();
};

inline bool is_skipped(const UpdateScalars& scalars) {
  return scalars.skip != nullptr && *scalars.skip != 0;
}

// How updates transform a gradient: multiply by `scale`, then clamp to ± `most`.
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
  std::array<float*, 3> states{};  // [count] each, in each update's order; null: not kept
  float weight_decay = 0;
};

// The factor of a weight under decoupled weight decay.
inline float weight_factor(double learning_rate, float weight_decay) {
  return static_cast<float>(1.0 - learning_rate * double{weight_decay});
}

// InternalError naming `what` unless the weight has exactly one form and its gradient a storage type.
void check_update(const WeightView& weight, DType gradient_dtype, int64_t count, const char* what);
// The same for every tensor; also that each has exactly the first `states` states.
void check_updates(std::span<const StatefulTensor> tensors, size_t states, const char* what);

// ---- AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", in the arithmetic of
// torch.optim.AdamW; states: m, v
//
//   w *= 1 - lr * weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// t is the number of this update; the first is 1.

// What the updates of a step share, computed in double as in PyTorch.
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
// The buffer starts as zeros. Without momentum there is no buffer, and w -= lr g.

void sgd_update(std::span<const StatefulTensor> tensors, const SgdSettings& settings,
                const UpdateScalars& scalars);

}  // namespace shoehorn::cpu
