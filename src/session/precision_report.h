// Describes the effect of a run's precision settings on a machine. Returns text; prints nothing.
#pragma once

#include <string>

#include "arguments/training_arguments.h"
#include "exec/backends.h"

namespace shoehorn {

// "fp16 products: as fp32 panels: oneDNN 2.6.3 has no fast ones on this processor; loss scale 2^16 at first, dynamic"
// and a new line; empty for fp32.
std::string format_precision(const TrainingArguments& args, const MachineProfile& machine = this_machine());

// "native", or that products of fp16 or bf16 operands run in fp32.
std::string half_products_text(bool is_fp16, const MachineProfile& machine = this_machine());

}  // namespace shoehorn
