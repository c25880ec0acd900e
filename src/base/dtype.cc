#include "base/dtype.h"

#include "base/error.h"

namespace shoehorn {

namespace {
struct Facts {
  int64_t bytes;
  std::string_view name;
  double epsilon;  // 0 for integers
};

Facts facts(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {4, "float32", 0x1p-23};
    case DType::kBF16:
      return {2, "bfloat16", 0x1p-7};
    case DType::kF16:
      return {2, "float16", 0x1p-10};
    case DType::kF64:
      return {8, "float64", 0x1p-52};
    case DType::kI8:
      return {1, "int8", 0};
    case DType::kU8:
      return {1, "uint8", 0};
    case DType::kI16:
      return {2, "int16", 0};
    case DType::kI32:
      return {4, "int32", 0};
    case DType::kI64:
      return {8, "int64", 0};
    case DType::kBool:
      return {1, "bool", 0};
  }
  throw InternalError("[dtype] unknown element type");
}
}  // namespace

int64_t dtype_bytes(DType dtype) {
  return facts(dtype).bytes;
}
std::string_view dtype_name(DType dtype) {
  return facts(dtype).name;
}
double dtype_epsilon(DType dtype) {
  return facts(dtype).epsilon;
}

}  // namespace shoehorn
