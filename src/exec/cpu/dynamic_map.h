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
#pragma once

#include <array>
#include <cstdint>

#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// Points of the grid, those in the middle that are looked up one by one, and how many others share an entry.
inline constexpr int32_t kGridPoints = 1 << 16;
inline constexpr int32_t kGridFine = 1024;
inline constexpr int32_t kGridFineBegin = (kGridPoints - kGridFine) / 2;
inline constexpr int32_t kGridCoarseBits = 5;
inline constexpr int32_t kGridCoarseEntries = kGridPoints >> kGridCoarseBits;

struct DynamicMap {
  std::array<float, 256> values;  // ascending
  // Coarse entries, then fine ones: code | point << 8, of which the codes from `point` on are one more. Small
  // enough for the first cache, which a table of all points is not.
  std::array<uint32_t, kGridCoarseEntries + kGridFine> steps;
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
