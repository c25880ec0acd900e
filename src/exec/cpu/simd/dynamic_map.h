// The 8-bit data type of bitsandbytes' optimizer states: block-wise dynamic quantization (Dettmers et al.,
// "8-bit optimizers via block-wise quantization", 2021). Codes and scales equal those of bitsandbytes 0.50's
// CPU library, byte for byte.
//
// A code stands for a number in [-1, 1] (signed) or [0, 1] (unsigned) times the scale of its block, which is
// the largest magnitude in the block. The 256 numbers are denser towards zero: seven decades, each with twice
// as many numbers as the one below it.
//
// To quantize, a number is first rounded to a grid of 2^16 points over [-1, 1]. Its code is that of the map's
// nearest number; of two equally near ones, the lower. No grid point is zero, so zero becomes the code next
// to 1.5e-5; but a block of zeros has codes and scale 0. NaN gets some code and does not affect the scale.
//
// Both directions are arithmetic on a code's rank: code - 127 (signed) or code + 1 (unsigned). The ranks of a
// decade are the integers from one power of two to the next, so a rank's exponent is its decade, and within a
// decade numbers are linear in the rank. So tables have one entry per decade and fit into a register. Codes
// are exact. Numbers equal the map's up to kNumberError, because a line and torch.linspace (which defines the
// map) round differently.
#pragma once

#include <array>
#include <cstdint>

#include "graph/optimizer_settings.h"

namespace shoehorn::cpu {

// Grid points. Half of them lie on each side of zero; the k-th on a side is at the distance k + 1/2.
inline constexpr int32_t kGridPoints = 1 << 16;

// Distances of the signed map are counted in quarters of a point and stretched a little, so that floats suffice
// to take kSignedCentre from a number above kSignedFloor, whose last digit is worth 4: for the point n from
// below, (kSignedFloor + 4 n) kStretch - kSignedCentre is kStretch (4 n - 131070) to 2^-22. The first point of a
// side stays above 2, the last below 2^17, so that distances have 16 exponents.
inline constexpr float kStretch = 1.0F + 127 * 0x1p-23F;
inline constexpr float kSignedFloor = 45973248;
inline constexpr float kSignedCentre = 46105016;

// Relative, where numbers and their lines are normal floats (scales from 2^-100 on): a line's slope and
// intercept, each rounded for the map and once more with the scale, have up to 1.8 and 0.8 of the decade's
// length, whose lowest number is a tenth of it. With a smaller scale, relative to that scale. An infinite
// scale gives no numbers.
inline constexpr double kNumberError = 0x1p-18;

// For smaller scales, the numbers of the unsigned map are zero.
inline constexpr float kSmallestUnsignedScale = 0x1p-120F;

// Tables of 16 have a place for each value of a float's exponent field modulo 16, or for each line.
struct DynamicMap {
  bool is_signed;
  std::array<float, 256> values;  // ascending

  // By the exponent of four times a rank, of which the number is slope * 4 rank + intercept.
  alignas(64) std::array<float, 16> number_slope;
  alignas(64) std::array<float, 16> number_intercept;

  // Of the grid's points, by their distance from zero: kStretch (4 k + 2) (signed) or 4 k (unsigned). Ranks
  // (signed), or codes, are straight lines, rounded to integers. What is added to the bits of the distance makes their
  // highest four the sign and the number of its line.
  alignas(64) std::array<uint32_t, 16> to_line;  // by the exponent of the distance
  alignas(64) std::array<float, 16> slope;       // by the line; from 8 on those of negative distances
  alignas(64) std::array<float, 16> intercept;
  alignas(64) std::array<float, 16> last;  // the largest magnitude of a line
};

// Built on the first call.
const DynamicMap& signed_dynamic_map();
const DynamicMap& unsigned_dynamic_map();

// Blocks of kStateBlock elements; the last one may be shorter. `scales` has one element per block.
void quantize_blocks(const DynamicMap& map, const float* values, int64_t count, uint8_t* codes,
                     float* scales);
void dequantize_blocks(const DynamicMap& map, const uint8_t* codes, const float* scales, int64_t count,
                       float* values);

}  // namespace shoehorn::cpu
