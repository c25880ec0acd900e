// AdamW and Lion with moments in 8 bits (exec/cpu/simd/dynamic_map.h), as bitsandbytes' block-wise updates: a
// block's moments are widened, updated, used for the weights as they then are, and rounded to codes again.
// What optimizer_kernels.h says holds here too; a list's tensors are whole parameters, whose blocks follow
// them and are computed each on its own.
#pragma once

#include "exec/cpu/optimizers/optimizer_kernels.h"

namespace shoehorn::cpu {

struct EightBitTensor {
  int64_t count;
  WeightView weight;
  DType gradient_dtype;
  const void* gradient;             // [count]
  std::array<uint8_t*, 2> codes{};  // [count] each, in the order that each update names; null: not kept
  std::array<float*, 2> scales{};   // [blocks of kStateBlock] of each
  float weight_decay = 0;
};

// AdamW; states: first moment (signed map), second moment (unsigned map)
//
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w *= 1 - lr * weight_decay;  w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// Moments have the codes and scales that bitsandbytes gives them; exec/cpu/simd/dynamic_map.h says how near the
// numbers of codes are.
void adamw_8bit_update(std::span<const EightBitTensor> tensors, const AdamWSettings& settings,
                       const UpdateScalars& scalars, const uint32_t* applied_updates);

// Lion; states: moment (signed map)
//
//   w *= 1 - lr * weight_decay;  w -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
void lion_8bit_update(std::span<const EightBitTensor> tensors, const LionSettings& settings,
                      const UpdateScalars& scalars);

}  // namespace shoehorn::cpu
