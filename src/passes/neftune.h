// Noisy embeddings (Jain et al., "NEFTune: Noisy embeddings improve instruction finetuning", 2023), as the Hugging Face
// Trainer adds them with neftune_noise_alpha.
//
//   x = table[input_ids] ─► …   ─►   x = table[input_ids] ─► embedding_noise ─► …
//
// The noise on a sequence of L tokens is uniform within ± alpha / √(L·H), drawn anew in each step, in training alone.
// Its gradient is that of what follows, unchanged. L is the sequence's own length, so that a sample's noise does not
// depend on the samples it is packed with (docs/differences-from-hugging-face.md).
//
// Safe because the noise is a function of seed, step, sample, position and feature (base/philox.h): recompute,
// accumulation, packing and a resumed run draw the same. Memory: none, it may lie in the bytes of what it reads, and is
// made again in the backward. Time: one pass over the embeddings. Changes numerics: other inputs to the model.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

// UserError for an alpha below 0 or not finite, and for a model that looks no input_ids up.
void neftune(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
