// Normal random numbers for new weights. They are counter-based, so any part of a tensor can be drawn
// separately and in parallel.
//
// Element i of stream s depends only on (seed, s, i): words of Philox4x32-10 are made uniform, then
// transformed by Box and Muller ("A note on the generation of random normal deviates", 1958), 32 pairs at a
// time.
#pragma once

#include <cstdint>
#include <span>

namespace shoehorn::cpu {

inline constexpr int64_t kNormalBlock = 64;  // elements drawn together

struct NormalFill {
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;  // index of values[0] in the stream: a multiple of kNormalBlock
  float mean = 0;
  float standard_deviation = 1;
  std::span<float> values;
};
void fill_normal(const NormalFill& arguments);

}  // namespace shoehorn::cpu
