// Warns about checkpoints trained in bfloat16 that are read for float16.
#pragma once

#include <string>

#include "io/tensor_files.h"

namespace shoehorn {

// A warning that activations may overflow, where config.json beside the weights says bfloat16 (`dtype`, or
// `torch_dtype` as it was called) or one of the tensors is BF16; else empty. bfloat16 has the range of fp32,
// and a model trained in it may have learnt to use it.
std::string fp16_overflow_warning(const TensorFiles& files);

}  // namespace shoehorn
