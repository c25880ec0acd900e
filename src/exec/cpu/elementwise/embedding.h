// Looks rows up in tables and adds gradients to them (token, position and type embeddings); gathers and
// scatters rows.
//
// R rows, S selected rows, H hidden, V entries of the table; row-major and dense. Activations are stored as
// `dtype` (float32, bfloat16 or float16, checked: InternalError; gathered rows also int32). An id outside of the table is a UserError,
// thrown before anything is written. Gradients are added in the order of the rows for any number of threads:
// a thread owns columns, not rows. Nothing is allocated.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

// y[r] = table[ids[r]] (+ addend[r])
struct EmbeddingForward {
  DType table_dtype;  // bfloat16: also the high half of a split master
  DType dtype;        // of addend and y
  int64_t rows;
  int64_t hidden;
  int64_t entries;
  const void* table;   // [V, H]
  const int32_t* ids;  // [R]
  const void* addend;  // [R, H], or null: none
  void* y;             // [R, H]; may be addend
};
void embedding_forward(const EmbeddingForward& arguments);

// dtable[ids[r]] += dy[r]
struct EmbeddingBackward {
  DType dtype;  // of dy
  int64_t rows;
  int64_t hidden;
  int64_t entries;
  const void* dy;         // [R, H]
  const int32_t* ids;     // [R]
  int64_t padding_index;  // this id gets no gradient (torch.nn.Embedding's padding_idx); -1: none
  bool accumulate;        // true: add to dtable; false: to zeros
  float* dtable;          // [V, H]
};
void embedding_backward(const EmbeddingBackward& arguments);

// y[s] = x[index[s]]
struct GatherRows {
  DType dtype;
  int64_t rows;
  int64_t selected;
  int64_t hidden;
  const void* x;         // [R, H]
  const int32_t* index;  // [S]
  void* y;               // [S, H]
};
void gather_rows(const GatherRows& arguments);

// last[s] = start[s] + length[s] - 1, the last row of a sequence; no sequence is empty. With `ids` the last one whose id is
// not the padding's, or start[s].
struct LastRows {
  int64_t sequences;
  const int32_t* start;          // [S]
  const int32_t* length;         // [S]
  const int32_t* ids = nullptr;  // [N]
  int64_t padding_index = -1;
  int32_t* last;  // [S]
};
void last_rows(const LastRows& arguments);

// y = 0, then y[index[s]] = x[s]: the gradient of gather_rows for distinct indices. (Of equal indices the
// last row wins.)
struct ScatterRows {
  DType dtype;
  int64_t rows;
  int64_t selected;
  int64_t hidden;
  const void* x;         // [S, H]
  const int32_t* index;  // [S]
  void* y;               // [R, H]
};
void scatter_rows(const ScatterRows& arguments);

}  // namespace shoehorn::cpu
