// Scalar bfloat16 conversions. float to bfloat16 rounds to nearest (ties to even) or stochastically; NaN
// stays NaN. Vector code has its own conversions (exec/cpu/simd).
#pragma once

#include <bit>
#include <cstdint>

namespace shoehorn {

struct bfloat16 {
  uint16_t bits;
};

inline float to_float(bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline bfloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// Stochastic rounding (Gupta et al., "Deep learning with limited numerical precision", 2015). The result is
// one of the two neighbours of x, each with a probability that falls with its distance from x, so that the
// mean over all random bits is x. `random_bits` holds 16 uniform bits. A float that is a bfloat16 already is
// returned as it is. A float beyond the largest bfloat16 may become infinite.
inline bfloat16 round_stochastically(float x, uint32_t random_bits) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<uint16_t>((bits + random_bits) >> 16)};
}

}  // namespace shoehorn
