#include "exec/cpu/elementwise/rotary.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/elementwise/rotary-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void turn_head(const T* x, const float* table, int64_t pairs, float sign, T* y) {
  const FloatVector signs = set(sign);
  for_columns(0, pairs, [&](int64_t i, auto lanes) {
    const FloatVector cosine = load(table + i, lanes);
    const FloatVector sine = hn::Mul(load(table + pairs + i, lanes), signs);
    const Pair turned = turn({load(x + i, lanes), load(x + pairs + i, lanes)}, cosine, sine);
    store(turned.first, y + i, lanes);
    store(turned.second, y + pairs + i, lanes);
  });
}

void rotary_rows(const Rotary& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const float sign = g.inverse ? -1.0F : 1.0F;
    const int64_t behind = g.first_column + g.heads * g.head_size;
    for (int64_t row = begin; row < end; ++row) {
      const float* table = g.table + row * 2 * g.pairs;
      const T* x = static_cast<const T*>(g.x) + row * g.columns;
      T* y = static_cast<T*>(g.y) + row * g.columns;
      if (x != y) {
        std::copy_n(x, g.first_column, y);
        std::copy(x + behind, x + g.columns, y + behind);
      }
      for (int64_t head = 0; head < g.heads; ++head) {
        const int64_t first = g.first_column + head * g.head_size;
        turn_head(x + first, table, g.pairs, sign, y + first);
        if (x != y) std::copy(x + first + 2 * g.pairs, x + first + g.head_size, y + first + 2 * g.pairs);
      }
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(rotary_rows);

namespace {

// A cosine and a sine take as long as this many elements of other kernels.
constexpr int64_t kElementsPerPair = 16;

}  // namespace

void rotary_table(const RotaryTable& g) {
  parallel_ranges(g.rows, row_grain(g.pairs * kElementsPerPair), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto position = static_cast<float>(g.positions[row]);
      float* cosines = g.table + row * 2 * g.pairs;
      float* sines = cosines + g.pairs;
      for (int64_t i = 0; i < g.pairs; ++i) {
        const float angle = position * g.frequencies[i];
        cosines[i] = std::cos(angle) * g.attention_factor;
        sines[i] = std::sin(angle) * g.attention_factor;
      }
    }
  });
}

void rotary(const Rotary& arguments) {
  check_storage(arguments.dtype, "rotary");
  parallel_ranges(arguments.rows, row_grain(arguments.heads * arguments.head_size),
                  [&](int64_t begin, int64_t end) {
                    HWY_DYNAMIC_DISPATCH(rotary_rows)
                    (arguments, begin, end);
                  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
