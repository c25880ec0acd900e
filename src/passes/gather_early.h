// Does not compute rows that nobody reads: a gather of rows moves up through the ops that treat each row
// separately.
//
//   context ─► dense ─► … ─► LayerNorm ─► gather   ─►   context ─► gather ─► dense ─► … ─► LayerNorm
//
// A classifier reads one token of each sequence, an encoder's the first and a decoder's the last. The attention of the last layer needs all tokens;
// everything behind it (its output projection and the feed-forward, three quarters of a layer's products) is
// then computed for one row per sequence.
//
// Safe because these ops compute row r of their output from row r of their inputs, and a value is narrowed
// only if every reader wants the same rows. Dropout masks depend on the token's sample and position; the
// batch has both for first tokens too, and for last tokens they are gathered, so masks stay the same. Memory: what that layer keeps, for the
// gathered rows only. Time: saves that work, in one layer of the model. Rounding only: products of fewer rows
// may add in another order.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

void gather_early(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
