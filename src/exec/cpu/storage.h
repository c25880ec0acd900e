// The storage types of activations: float32, bfloat16 and float16. Arithmetic is always float32.
#pragma once

#include "base/bfloat16.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/float16.h"

namespace shoehorn::cpu {

inline void check_storage(DType dtype, const char* what) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
        "[{}] expected float32, bfloat16 or float16, got {}", what, dtype_name(dtype));
}

// Calls function(T{}) with the C++ type of a checked dtype.
template <class Function>
inline void with_storage(DType dtype, const Function& function) {
  if (dtype == DType::kBF16) {
    function(bfloat16{});
  } else if (dtype == DType::kF16) {
    function(float16{});
  } else {
    function(float{});
  }
}

// Reads or writes one element as float32.
inline float read_element(const float* from) {
  return *from;
}
inline float read_element(const bfloat16* from) {
  return to_float(*from);
}
inline float read_element(const float16* from) {
  return to_float(*from);
}
inline void write_element(float value, float* to) {
  *to = value;
}
inline void write_element(float value, bfloat16* to) {
  *to = to_bfloat16(value);
}
inline void write_element(float value, float16* to) {
  *to = to_float16(value);
}

}  // namespace shoehorn::cpu
