// A product of few terms and the sum behind it become one kernel, forward and backward: what an adapter adds to its layer's
// product, and what its gradient adds to that of the layer's input.
//
//   low [M, r] · B [r, N] ─► delta ─► + base [M, N]  ─►  matmul with `base` as its addend
//
// Safe because nothing but the sum reads the product. Memory: delta is never there. Time: C is read and written once, where it
// was written, read and written. Behind the backward, so that sums of gradients are found too, and before what chooses which
// values are kept. Rounding only: delta is not rounded to 16 bits before it is added.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void fuse_added_product(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
