// Rows that nobody reads are not computed: a gather of rows moves up through the ops that treat each row
// alone.
//
//   context ─► dense ─► … ─► LayerNorm ─► gather   ─►   context ─► gather ─► dense ─► … ─► LayerNorm
//
// A classifier reads the first token of a sequence. So behind the attention of the last layer, which is of
// all tokens, only first tokens pass: its feed-forward and the projection before it, three quarters of a
// layer's products, are of one row a sequence.
//
// Safe because these ops make a row of their output from the same row of their inputs, and a value is only
// narrowed where every reader wants the same rows. Dropout masks are of the token's sample and place, which
// the batch has for first tokens too, so that they stay the same. Memory: of that layer what was kept of all
// tokens is of few. Time: as the work; one part in the number of layers. Rounding only: products of fewer
// rows may sum in another order.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void gather_early(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
