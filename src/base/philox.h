// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
//
// This file defines what a dropout mask is, and which random bits round weights. Element (sample, position,
// feature) of stream `stream_id` at optimizer step `step` draws 16 random bits; eight neighbouring features
// share one block of 128:
//
//   key     = (seed low ^ stream_id * 0x9E3779B9, seed high ^ step)
//   counter = (feature / 8, position, sample, extra)
//   bits of feature f = half-word (f % 8) of the block: word (f % 8) / 2, low half first
//
// `sample` is the index in the effective batch and `position` the token's position in its sequence. So a mask
// does not change with recompute, packing, accumulation or the number of ranks. Attention probabilities use
// position = query, feature = key, extra = head; everything else has extra = 0. An element is dropped if its
// bits < drop_threshold(p).
//
// Stochastic rounding (bfloat16.h) of a parameter draws 16 bits per element in the same way: `stream_id` is
// the number of the parameter, `step` the number of updates so far, feature = i for element i < 2^35,
// position = sample = 0, and extra = kRoundingExtra, which is no head's.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace shoehorn {

struct PhiloxKey {
  uint32_t k0;
  uint32_t k1;
};

inline PhiloxKey philox_key(uint64_t seed, uint32_t step, uint32_t stream_id) {
  return {static_cast<uint32_t>(seed) ^ (stream_id * 0x9E3779B9U), static_cast<uint32_t>(seed >> 32) ^ step};
}

inline std::array<uint32_t, 4> philox4x32_10(PhiloxKey key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key.k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key.k1, static_cast<uint32_t>(p0)};
    key.k0 += 0x9E3779B9U;
    key.k1 += 0xBB67AE85U;
  }
  return counter;
}

inline constexpr uint32_t kRoundingExtra = 0x80000000U;
inline constexpr int64_t kMaxRoundedElements = int64_t{1} << 35;

inline uint32_t rounding_bits(PhiloxKey key, int64_t element) {
  const auto words = philox4x32_10(key, {static_cast<uint32_t>(element / 8), 0, 0, kRoundingExtra});
  return (words[static_cast<size_t>(element % 8 / 2)] >> (16 * (element % 2))) & 0xffffU;
}

// 16-bit threshold of a drop probability p in [0, 1). The probability in effect differs from p by at most
// 2^-17.
inline uint32_t drop_threshold(float p) {
  return static_cast<uint32_t>(std::lround(static_cast<double>(p) * 65536.0));
}

// The factor of kept elements: the exact inverse of the probability that an element is kept.
inline float keep_scale(float p) {
  return static_cast<float>(65536.0 / (65536.0 - drop_threshold(p)));
}

}  // namespace shoehorn
