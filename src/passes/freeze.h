// Parameters that are not trained: no gradient, no optimizer state, and nothing kept for a backward that only
// they would need. A backward ends where nothing trainable lies behind it.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// Regular expressions (base/pattern.h) of options.freeze, searched in the parameters' names. UserError naming
// one that matches no name or is no expression, or where nothing is left to train.
void freeze(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
