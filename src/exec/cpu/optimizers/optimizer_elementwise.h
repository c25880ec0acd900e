// Adagrad, RMSprop and Lion: element-wise updates over lists of tensors, in one pass over memory. The
// contract of optimizer_kernels.h holds here too.
#pragma once

#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// torch.optim.Adagrad; states: sum
//
//   g += weight_decay w;  sum += g^2;  w -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + epsilon)
//
// t is the number of this update; the first is 1.
void adagrad_update(std::span<const StatefulTensor> tensors, const AdagradSettings& settings,
                    const UpdateScalars& scalars, const uint32_t* applied_updates);

// torch.optim.RMSprop; states: square_avg; with momentum also momentum_buffer; if centered also grad_avg
//
//   g += weight_decay w;  s = alpha s + (1 - alpha) g^2;  a += (1 - alpha) (g - a)
//   b = momentum b + g / (sqrt(s - a^2) + epsilon);  w -= lr b
void rmsprop_update(std::span<const StatefulTensor> tensors, const RmsPropSettings& settings,
                    const UpdateScalars& scalars);

// Lion, Chen et al. (2023), with the weight decay of AdamW; states: exp_avg
//
//   w *= 1 - lr * weight_decay;  w -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
//
// sign(0) is 0. If the sum is NaN, the weight becomes NaN too.
void lion_update(std::span<const StatefulTensor> tensors, const LionSettings& settings,
                 const UpdateScalars& scalars);

}  // namespace shoehorn::cpu
