// Kernels on a range of columns of a matrix: R rows of N columns, W of them from `offset` on; and one that lays out rows anew.
// Row-major and dense but for the latter's result, float32, bfloat16 or float16 (checked: InternalError). Arithmetic is float32
// and rounds once on storing. Nothing is allocated; OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

struct AddColumns {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t offset;
  int64_t width;
  const void* x;       // [R, N]
  const void* addend;  // [R, W]
  void* y;             // [R, N] x with the addend added to the range; may be x
};
void add_columns(const AddColumns& arguments);

struct TakeColumns {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t offset;
  int64_t width;
  const void* x;  // [R, N]
  void* y;        // [R, W] the range of x; does not overlap x
};
void take_columns(const TakeColumns& arguments);

struct SpreadColumns {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t offset;
  int64_t width;
  const void* x;  // [R, W]
  void* y;        // [R, N] x in the range, zeros beside it; does not overlap x
};
void spread_columns(const SpreadColumns& arguments);

struct PutColumns {
  DType dtype;  // of y
  int64_t rows;
  int64_t columns;
  int64_t offset;
  int64_t width;
  const float* x;  // [R, W]
  void* y;         // [R, N]; its range is set to x; does not overlap x
};
void put_columns(const PutColumns& arguments);

struct WidenRows {
  DType dtype;  // of x
  int64_t rows;
  int64_t columns;
  int64_t stride;  // elements between the starts of y's rows, N or more (checked: InternalError)
  const void* x;   // [R, N]
  float* y;        // R rows of x's elements; what is behind them is left as it is; does not overlap x
};
void widen_rows(const WidenRows& arguments);

}  // namespace shoehorn::cpu
