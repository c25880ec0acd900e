// Rotary position embedding: the table of cosines and sines, and the turn of heads by it.
//
// R rows of tokens, P pairs, N columns, heads of D columns side by side; row-major and dense. Data are stored as
// `dtype` (float32, bfloat16 or float16, checked: InternalError), the table is float32, and so is arithmetic, which
// rounds once on storing. Nothing is allocated; OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

// With angle = position · frequency, a float32 product: table[r] = attention_factor · (cos of all pairs, then sin).
struct RotaryTable {
  int64_t rows;
  int64_t pairs;
  float attention_factor;
  const float* frequencies;  // [P]
  const int32_t* positions;  // [R]
  float* table;              // [R, 2·P]
};
void rotary_table(const RotaryTable& arguments);

// For each head and i < P, with c and s of pair i:
//   y[i] = x[i] c - x[i + P] s,  y[i + P] = x[i + P] c + x[i] s
// Columns from 2·P on of a head, and those of no head, are copied. The inverse has -s.
struct Rotary {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t first_column;  // of the first head
  int64_t heads;
  int64_t head_size;
  int64_t pairs;
  bool inverse;
  const float* table;  // [R, 2·P]
  const void* x;       // [R, N]
  void* y;             // [R, N]; may be x
};
void rotary(const Rotary& arguments);

}  // namespace shoehorn::cpu
