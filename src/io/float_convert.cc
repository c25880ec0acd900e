#include "io/float_convert.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/float16.h"

namespace shoehorn {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

float widen(uint16_t bits, DType from) {
  return from == DType::kBF16 ? to_float(bfloat16{bits}) : to_float(float16{bits});
}

void narrow(float value, float& destination) {
  destination = value;
}
void narrow(float value, bfloat16& destination) {
  destination = to_bfloat16(value);
}

template <typename Element>
Element load(const std::byte* source, size_t index) {
  Element element;
  std::memcpy(&element, source + index * sizeof(Element), sizeof(Element));
  return element;
}

template <typename To>
void convert(DType from, std::span<const std::byte> source, std::span<To> destination) {
  CHECK(is_float(from), "from {}", dtype_name(from));
  CHECK(source.size() == destination.size() * static_cast<size_t>(dtype_bytes(from)),
        "{} bytes for {} elements", source.size(), destination.size());
  const std::byte* const in = source.data();
  const size_t count = destination.size();
  switch (from) {
    case DType::kF64:
      for (size_t i = 0; i < count; ++i) narrow(static_cast<float>(load<double>(in, i)), destination[i]);
      return;
    case DType::kF32:
      for (size_t i = 0; i < count; ++i) narrow(load<float>(in, i), destination[i]);
      return;
    case DType::kF16:
      for (size_t i = 0; i < count; ++i) narrow(widen(load<uint16_t>(in, i), DType::kF16), destination[i]);
      return;
    default:
      for (size_t i = 0; i < count; ++i) narrow(widen(load<uint16_t>(in, i), DType::kBF16), destination[i]);
      return;
  }
}

}  // namespace

void convert_elements(DType from, std::span<const std::byte> source, std::span<float> destination) {
  convert(from, source, destination);
}

void convert_elements(DType from, std::span<const std::byte> source, std::span<bfloat16> destination) {
  convert(from, source, destination);
}

}  // namespace shoehorn
