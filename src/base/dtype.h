// Element types of tensors in programs and in files.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoehorn {

enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI8, kU8, kI16, kI32, kI64, kBool };

// Size of one element in bytes.
int64_t dtype_bytes(DType dtype);

// "float32", "bfloat16", …: the spelling of Hugging Face's config.json, also used in our tables.
std::string_view dtype_name(DType dtype);

// Distance from 1 to the next larger number: 2^-23, 2^-7, 2^-10, 2^-52. Float types only.
double dtype_epsilon(DType dtype);

inline bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF64;
}

}  // namespace shoehorn
