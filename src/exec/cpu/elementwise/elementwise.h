// Element-wise kernels: sums, products, dropout, casts, scaling, and the split storage of master weights.
//
// R rows, N columns, row-major and dense. `dtype` is float32, bfloat16 or float16 (checked: InternalError).
// Arithmetic is float32 and rounds once on storing. An output may be the same buffer as an input of the same
// dtype; otherwise it must not overlap an input. Pointers need only the alignment of their elements. Nothing
// is allocated; OpenMP threads; results do not depend on their number.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bfloat16.h"
#include "base/dtype.h"
#include "base/philox.h"

namespace shoehorn::cpu {

// The arguments of a dropout mask (base/philox.h); its feature is the column. Masks are never stored: the
// backward draws them again.
struct Dropout {
  float p = 0.0F;  // probability of dropping, in [0, 1); 0: the pointers are not read
  uint64_t seed = 0;
  uint32_t stream_id = 0;
  const uint32_t* step = nullptr;     // [1] optimizer step
  const int32_t* sample = nullptr;    // [R] index in the effective batch
  const int32_t* position = nullptr;  // [R] position in the sequence
};

// True if the mask drops anything at all.
inline bool drops(const Dropout& dropout) {
  return drop_threshold(dropout.p) != 0;
}

struct Add {
  DType dtype;
  int64_t count;
  const void* a;  // [count]
  const void* b;  // [count]
  void* sum;      // [count] a + b
};
void add(const Add& arguments);

struct Multiply {
  DType dtype;
  int64_t count;
  const void* a;  // [count]
  const void* b;  // [count]
  void* product;  // [count] a · b
};
void multiply(const Multiply& arguments);

struct BiasAdd {
  DType dtype;
  int64_t rows;
  int64_t columns;
  const void* x;      // [R, N]
  const float* bias;  // [N]
  void* y;            // [R, N]
};
void bias_add(const BiasAdd& arguments);

// y = mask * x / (1 - p). The gradient is the same function of dy.
struct DropoutApply {
  DType dtype;
  int64_t rows;
  int64_t columns;
  Dropout dropout;
  const void* x;  // [R, N]
  void* y;        // [R, N]
};
void dropout_apply(const DropoutApply& arguments);

struct Cast {
  int64_t count;
  DType from_dtype;
  const void* from;  // [count]
  DType to_dtype;
  void* to;  // [count]
};
void cast(const Cast& arguments);

struct Scale {
  DType dtype;
  int64_t count;
  const void* x;        // [count]
  const float* factor;  // [1]
  void* y;              // [count]
};
void scale(const Scale& arguments);

struct Fill {
  DType dtype;
  int64_t count;
  float value;
  void* y;  // [count]
};
void fill(const Fill& arguments);

// Copies bytes; the buffers do not overlap.
void copy(const void* from, int64_t bytes, void* to);

// ---- Split masters
//
// A float32 master weight is stored as a bfloat16, which products read, and a 16-bit rest. No bit is lost,
// and the two take the same 4 bytes:
//
//   bits of the value = high * 2^16 + rest,  rest in [-2^15, 2^15)
//
// `high` is the nearest bfloat16; of two equally near ones it is the one farther from zero. (Ties to even
// would need 2^16 + 1 values of the rest around an even number.) So it differs from a plain cast only at
// ties. NaN stays NaN in both readings; its payload may change.

struct SplitFloat {
  bfloat16 high;
  int16_t rest;
};

inline SplitFloat split_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const uint32_t high = is_nan ? bits | 0x400000U : bits + 0x8000U;
  return {{static_cast<uint16_t>(high >> 16)}, static_cast<int16_t>(bits & 0xffffU)};
}

inline float join_float(SplitFloat split) {
  const uint32_t high = static_cast<uint32_t>(split.high.bits) << 16;
  return std::bit_cast<float>(high + static_cast<uint32_t>(static_cast<int32_t>(split.rest)));
}

void split_master(const float* value, int64_t count, bfloat16* high, int16_t* rest);
void join_master(const bfloat16* high, const int16_t* rest, int64_t count, float* value);

}  // namespace shoehorn::cpu
