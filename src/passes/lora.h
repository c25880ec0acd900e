// Low-rank adapters. The model keeps its weights, and each targeted linear layer learns a product of two thin
// matrices beside them ("LoRA: low-rank adaptation of large language models", Hu et al., 2021). Names,
// initial values and defaults are PEFT's.
//
//   before   y = x·Wᵀ + b
//   after    y = x·Wᵀ + (s·(dropout(x)·Aᵀ))·Bᵀ + b      A [r, inputs], B [outputs, r], s = alpha / r
//
// A starts uniform in ±1/√inputs and B at zero, so that training starts from the unchanged model. Everything
// else is frozen, except modules that are trained whole; by default that is the layer that makes the logits,
// which gets no adapter. W has no gradient and no optimizer state, and nothing is kept for them. The gradient
// of A reads dropout(x), which `rematerialize` recomputes if x is the output of a norm or an activation.
//
// The low-rank product is added before the bias, where fused chains begin. So `fuse` still makes one product
// of query, key and value, and adds each adapter to its columns (ops/column_ops.cc). Changes numerics: it
// trains another model.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// Adds adapters if options.lora.rank is above 0, and records them in family.adapters. UserError naming a
// target or a module to save that the model does not have, or a setting out of range. A table that is the head, too, is saved by the
// name of either module; adapters.modules_to_save has both.
void lora(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
