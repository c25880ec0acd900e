// Freezes parameters: no gradient and no optimizer state for them, and nothing is kept for a backward that
// only they would need. The backward stops where nothing trainable lies behind it.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// Freezes the parameters whose names contain a match of a regular expression (base/pattern.h) in
// options.freeze. UserError if an expression is malformed or matches no name, or if nothing is left to train.
void freeze(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
