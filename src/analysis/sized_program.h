// A program at the sizes of a call, for what ops cost there.
#pragma once

#include <cstdint>
#include <span>

#include "graph/program.h"

namespace shoehorn {

// A copy of the program in which every dimension has the size that it has in a call with these counts, so that the ops'
// costs are those of the call. Attention's longest sequences stay those of the plan.
Program at_counts(const Program& program, std::span<const int64_t> counts);

}  // namespace shoehorn
