// The 8-bit data type of bitsandbytes' optimizer states: block-wise dynamic quantisation, Dettmers et al.,
// "8-bit optimizers via block-wise quantization" (2021), codes and scales equal to those of bitsandbytes
// 0.50's CPU library byte for byte.
//
// A code stands for a number in [-1, 1] (signed) or [0, 1] (unsigned) times its block's scale, the largest
// magnitude in the block. The 256 numbers are finer towards zero: seven decades, each with twice as many
// numbers as the one below it.
//
// A number is first rounded to a grid of 2^16 points over [-1, 1]; its code is that of the nearest number of
// the map, of two equally near the lower. No point of the grid is zero, so that zero becomes the code next to
// 1.5e-5, except in a block of zeros, whose codes and scale are 0. NaN has code 0 and no part in the scale.
//
// Both directions are arithmetic on a code's rank, |code - 127| (signed) or code + 1 (unsigned): the ranks of
// a decade are the integers from a power of two to the next, so a rank's exponent is its decade, its mantissa
// the place in it. Tables are then of decades, small enough for a register.
#pragma once

#include <array>
#include <cstdint>

#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// Points of the grid. Half of them lie on each side of zero, the k-th of a side at the distance k + 1/2.
inline constexpr int32_t kGridPoints = 1 << 16;

// A decade's numbers are middles of equal parts of [0.1, 1]. A part's boundary is linear in its place t in
// [0, 1], with roundings, those of torch.linspace, that make it start at either of two numbers.
inline constexpr float kDecadeLength = 1.0F - 0.1F;
inline constexpr float kLowerStart = 0.1F;                  // for t < 1/2
inline constexpr float kUpperStart = 1.0F - kDecadeLength;  // for t >= 1/2

// Tables of 16 have a place for each value of a float's exponent field modulo 16.
struct DynamicMap {
  bool is_signed;
  std::array<float, 256> values;  // ascending

  // By the exponent of a rank: one part of its decade, and half of what the decade is scaled by.
  alignas(64) std::array<float, 16> part;
  alignas(64) std::array<float, 16> half_scale;

  // The ranks of the grid's points, by their distance from zero: straight lines, rounded to integers. What is
  // added to the distance's bits makes their exponent field, modulo 16, the number of the line.
  alignas(64) std::array<uint32_t, 16> to_line;  // by the exponent of the distance
  alignas(64) std::array<float, 16> slope;       // by the line, of which there are at most 8
  alignas(64) std::array<float, 16> intercept;
  alignas(64) std::array<float, 16> last;  // ranks of a line are at most this
};

// Made on the first call.
const DynamicMap& signed_dynamic_map();
const DynamicMap& unsigned_dynamic_map();

// Blocks of kStateBlock elements, the last one shorter; `scales` has one a block.
void quantize_blocks(const DynamicMap& map, const float* values, int64_t count, uint8_t* codes,
                     float* scales);
void dequantize_blocks(const DynamicMap& map, const uint8_t* codes, const float* scales, int64_t count,
                       float* values);

}  // namespace shoehorn::cpu
