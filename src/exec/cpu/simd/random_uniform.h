// Uniform random numbers for new weights: counter-based, like the normal ones (random_normal.h).
//
// Element i of stream s is word i % 4 of the Philox4x32-10 block with counter i / 4. The key is that of a
// step which no training reaches, so no dropout mask uses the same bits.
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
