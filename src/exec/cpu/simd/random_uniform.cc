#include "exec/cpu/simd/random_uniform.h"

#include <limits>

#include "base/philox.h"
#include "exec/cpu/parallel.h"

namespace shoehorn::cpu {

void fill_uniform(const UniformFill& arguments) {
  const PhiloxKey key = philox_key(arguments.seed, std::numeric_limits<uint32_t>::max(), arguments.stream);
  const auto count = static_cast<int64_t>(arguments.values.size());
  parallel_ranges(count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const auto index = static_cast<uint64_t>(arguments.first + at);
      const uint64_t block = index / 4;
      const uint32_t word = philox4x32_10(
          key, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0})[index % 4];
      // The high 24 bits as steps of 2^-23 from -1: exact in fp32.
      arguments.values[static_cast<size_t>(at)] =
          (static_cast<float>(word >> 8) * 0x1p-23F - 1.0F) * arguments.bound;
    }
  });
}

}  // namespace shoehorn::cpu
