// The outer update of local SGD (passes/local_sgd.h), element by element, over weights that are float32 or split masters.
// The contract of optimizer_kernels.h holds here too: any number of threads gives the same bits, and nothing is allocated.
#pragma once

#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "graph/attributes.h"

namespace shoehorn::cpu {

struct OuterTensor {
  int64_t count;
  WeightView weight;          // float32 or split (checked: InternalError)
  float* start;               // [count] the weight as the last outer update left it
  float* momentum = nullptr;  // [count]; null: none is kept
};

// start = weight
void outer_start(const OuterTensor& tensor);

// gradient [count] = start - weight; reads both.
void outer_gradient(const OuterTensor& tensor, float* gradient);

// SGD with Nesterov's momentum, as torch.optim.SGD has it, with the mean over ranks of outer gradients, from `start`:
//
//   g = sum / ranks;  m = momentum m + g;  start -= lr (g + momentum m);  weight = start
//
// Without momentum there is no m, and start -= lr g. `sum` [count] is not changed.
void outer_update(const OuterTensor& tensor, const float* sum, const OuterUpdateAttributes& attributes);

}  // namespace shoehorn::cpu
