// Low-rank adapters: a model keeps its weights, and each targeted linear layer learns a product of two thin
// matrices beside them ("LoRA: low-rank adaptation of large language models", Hu et al., 2021; names, start
// and defaults are PEFT's).
//
//   before   y = x·Wᵀ + b
//   after    y = x·Wᵀ + (s·(dropout(x)·Aᵀ))·Bᵀ + b      A [r, inputs], B [outputs, r], s = alpha / r
//
// A starts uniform in ±1/√inputs, B at zero, so that the model starts as it was. All else is frozen, but for
// whole modules that are trained beside the adapters: unless said otherwise the layer that makes the logits,
// which gets no adapter. W needs no gradient and no optimizer state, and nothing is kept for them; what the
// gradient of A reads, dropout(x), `rematerialize` makes again where x is a norm's or an activation's output.
//
// The low-rank product is added before the bias, where fused chains begin: `fuse` still makes one product of
// query, key and value, and adds each adapter to its columns of it (ops/column_ops.cc). Changes numerics: it
// trains another model.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// Adds adapters where options.lora has a rank, and records them in family.adapters. UserError naming a target
// or a module to save that the model has not, or a setting that is out of range.
void lora(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
