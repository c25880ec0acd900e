// Uniform noise on the embeddings of packed sequences, as NEFTune adds it (Jain et al., "NEFTune: Noisy embeddings
// improve instruction finetuning", 2023).
//
// R rows of tokens, N columns, S sequences, row-major and dense. `dtype` is float32, bfloat16 or float16 (checked:
// InternalError); arithmetic is in float32 and rounds once on storing.
//
//   y[r, n] = x[r, n] + u · alpha / √(L·N)    in a row of a sequence of L tokens
//   y[r, n] = x[r, n]                         in a row of none
//
// u is uniform in (-1, 1): (2·bits + 1) / 2^16 - 1 of the 16 random bits that base/philox.h has for the sample, the
// position in the sequence and the column. Nothing is allocated; OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

struct EmbeddingNoise {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t sequences;
  float alpha;
  uint64_t seed;
  uint32_t stream_id;
  const uint32_t* step;   // [1] optimizer step
  const int32_t* start;   // [S] row of the first token
  const int32_t* length;  // [S] tokens
  const int32_t* sample;  // [S] index in the effective batch
  const void* x;          // [R, N]
  void* y;                // [R, N]; may be x, and overlaps it not otherwise
};
void embedding_noise(const EmbeddingNoise& arguments);

}  // namespace shoehorn::cpu
