// The executable proof that ranks never wait for each other in vain. Ranks run the same programs (they compare them before they
// start), but not the same one at the same time: each takes the bucket that its own batch fits, and in the place of a last
// micro-batch the exchange alone. What may run beside each other issues the same collectives, of the same sizes, in one order.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// InternalError naming two programs and the first collective in which they differ.
void verify_collectives(const ProgramFamily& family);

}  // namespace shoehorn
