// Uniform random numbers for new weights: counter-based, as normal ones are (random_normal.h).
//
// Element i of stream s under a seed is word i % 4 of the Philox4x32-10 block with the counter i / 4, under
// the key of a step that no training has: its bits are no dropout mask's.
#pragma once

#include <cstdint>
#include <span>

namespace shoehorn::cpu {

struct UniformFill {
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;  // index of values[0] in the stream
  float bound = 1;    // values lie in [-bound, bound)
  std::span<float> values;
};
void fill_uniform(const UniformFill& arguments);

}  // namespace shoehorn::cpu
