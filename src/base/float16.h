// Scalar float16 (IEEE binary16) conversions. float to float16 rounds to nearest, ties to even; from 65520 on
// (the largest number, 65504, plus half a step) the result is infinity. Subnormals are kept. NaN stays NaN
// and becomes quiet, as in the processor's own conversion. Vector code has its own conversions
// (exec/cpu/simd).
#pragma once

#include <bit>
#include <cstdint>

namespace shoehorn {

struct float16 {
  uint16_t bits;
};

inline float to_float(float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000U) << 16;
  const uint32_t rest = x.bits & 0x7fffU;
  if (rest >= 0x7c00U) {
    const uint32_t quiet = rest > 0x7c00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13) | quiet);
  }
  // A subnormal is an integer number of 2^-24.
  if (rest < 0x400U) {
    return std::bit_cast<float>(
        sign | std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24F));
  }
  return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));
}

inline float16 to_float16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) return {static_cast<uint16_t>(sign | 0x7e00U | ((rest >> 13) & 0x3ffU))};
  if (rest >= 0x477ff000U) return {static_cast<uint16_t>(sign | 0x7c00U)};  // from 65520 on, infinity too
  if (rest < 0x38800000U) {
    // Below 2^-14 the last place is 2^-24, which is that of floats in [1/2, 1): the addition rounds.
    const float magnitude = std::bit_cast<float>(rest) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(magnitude) - 0x3f000000U))};
  }
  const uint32_t rounded = rest + 0xfffU + ((rest >> 13) & 1U) - (112U << 23);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace shoehorn
