#include "exec/cpu/elementwise/embedding_noise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/embedding_noise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/philox_simd-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Columns whose bits are drawn at a time: a multiple of 8, and short enough for a buffer on the stack.
inline constexpr int64_t kNoiseColumns = 1024;

template <class T>
HWY_INLINE void add_noise_to_row(const EmbeddingNoise& g, const PhiloxRow& counter, float largest,
                                 int64_t row) {
  const hn::Repartition<uint16_t, PhiloxTag> d16;
  const T* x = static_cast<const T*>(g.x) + row * g.columns;
  T* y = static_cast<T*>(g.y) + row * g.columns;
  // A last vector may reach beyond what was drawn.
  alignas(64) uint16_t bits[philox_elements(kNoiseColumns) + hn::MaxLanes(FloatTag())];
  for (int64_t begin = 0; begin < g.columns; begin += kNoiseColumns) {
    const int64_t end = HWY_MIN(begin + kNoiseColumns, g.columns);
    philox_half_words(counter, static_cast<uint32_t>(begin / 8), end - begin,
                      [&](int64_t i, auto half_words) { hn::StoreU(half_words, d16, bits + i); });
    for_columns(begin, end, [&](int64_t i, auto lanes) {
      const auto drawn = hn::PromoteTo(hn::RebindToSigned<FloatTag>(), load_half(bits + (i - begin)));
      const FloatVector u = hn::MulAdd(hn::ConvertTo(FloatTag(), drawn), set(0x1p-15F), set(0x1p-16F - 1));
      store(hn::MulAdd(u, set(largest), load(x + i, lanes)), y + i, lanes);
    });
  }
}

void add_noise_to_rows(const EmbeddingNoise& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    if (g.x != g.y) {
      std::memcpy(static_cast<T*>(g.y) + begin * g.columns, static_cast<const T*>(g.x) + begin * g.columns,
                  static_cast<size_t>((end - begin) * g.columns) * sizeof(T));
    }
    const PhiloxKey key = philox_key(g.seed, *g.step, g.stream_id);
    for (int64_t s = 0; s < g.sequences; ++s) {
      const int64_t start = g.start[s];
      const int64_t length = g.length[s];
      const auto elements = static_cast<float>(length * g.columns);
      const float largest = g.alpha / std::sqrt(elements);
      for (int64_t row = HWY_MAX(begin, start); row < HWY_MIN(end, start + length); ++row) {
        const PhiloxRow counter{key, static_cast<uint32_t>(row - start), static_cast<uint32_t>(g.sample[s]),
                                0};
        add_noise_to_row<T>(g, counter, largest, row);
      }
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(add_noise_to_rows);

}  // namespace

void embedding_noise(const EmbeddingNoise& arguments) {
  check_storage(arguments.dtype, "embedding_noise");
  parallel_ranges(arguments.rows, row_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_noise_to_rows)(arguments, begin, end);
  });
}

}  // namespace shoehorn::cpu
#endif
