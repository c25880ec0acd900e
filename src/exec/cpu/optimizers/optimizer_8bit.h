// AdamW and Lion with 8-bit moments (exec/cpu/simd/dynamic_map.h), as in bitsandbytes' block-wise updates: a
// block's moments are widened, updated, used for the weights, and rounded to codes again. The contract of
// optimizer_kernels.h holds here too. The tensors of a list are whole parameters; each block is computed
// independently.
#pragma once

#include "exec/cpu/optimizers/optimizer_kernels.h"

namespace shoehorn::cpu {

struct EightBitTensor {
  int64_t count;
  WeightView weight;
  DType gradient_dtype;
  const void* gradient;             // [count]
  std::array<uint8_t*, 2> codes{};  // [count] each, in each update's order; null: not kept
  std::array<float*, 2> scales{};   // one per block of kStateBlock elements
  float weight_decay = 0;
};

// AdamW; states: first moment (signed map), second moment (unsigned map)
//
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w *= 1 - lr * weight_decay;  w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// Codes and scales of the moments equal those of bitsandbytes; exec/cpu/simd/dynamic_map.h says how close the
// numbers are that codes stand for.
void adamw_8bit_update(std::span<const EightBitTensor> tensors, const AdamWSettings& settings,
                       const UpdateScalars& scalars, const uint32_t* applied_updates);

// Lion; states: moment (signed map)
//
//   w *= 1 - lr * weight_decay;  w -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
void lion_8bit_update(std::span<const EightBitTensor> tensors, const LionSettings& settings,
                      const UpdateScalars& scalars);

}  // namespace shoehorn::cpu
