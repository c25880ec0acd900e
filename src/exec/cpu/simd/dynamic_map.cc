#include "exec/cpu/simd/dynamic_map.h"

#include <algorithm>
#include <type_traits>

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/simd/dynamic_map.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/dynamic_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

template <class Function>
HWY_INLINE void with_signedness(const DynamicMap& map, const Function& function) {
  if (map.is_signed) {
    function(std::true_type());
  } else {
    function(std::false_type());
  }
}

void quantize_all(const DynamicMap& map, const float* values, int64_t count, uint8_t* codes, float* scales) {
  with_signedness(map, [&](auto is_signed) {
    const CodeLines lines = code_lines(map);
    for (int64_t at = 0; at < count; at += kStateBlock) {
      const int64_t size = std::min(kStateBlock, count - at);
      FloatVector largest = set(0.0F);
      for_columns(at, at + size, [&](int64_t i, auto lanes) {
        largest = larger<is_signed>(largest, load(values + i, lanes), lanes);
      });
      scales[at / kStateBlock] = max_lanes(largest);
      const FloatVector inverse = inverse_scale(scales[at / kStateBlock]);
      for_vectors(size, [&](int64_t i, auto lanes, auto vectors) {
        const auto x = load_each<vectors>(values + at + i, lanes);
        store_low_bytes(quantize<is_signed>(lines, x, inverse), codes + at + i, lanes);
      });
      clear_if_zero(scales[at / kStateBlock], codes + at, size);
    }
  });
}

void dequantize_all(const DynamicMap& map, const uint8_t* codes, const float* scales, int64_t count,
                    float* values) {
  with_signedness(map, [&](auto is_signed) {
    for (int64_t at = 0; at < count; at += kStateBlock) {
      const NumberLines lines = number_lines<is_signed>(map, scales[at / kStateBlock]);
      for_vectors(std::min(kStateBlock, count - at), [&](int64_t i, auto lanes, auto vectors) {
        store_each(dequantize<is_signed, vectors>(lines, codes + at + i, lanes), values + at + i, lanes);
      });
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(quantize_all);
HWY_EXPORT(dequantize_all);

}  // namespace

void quantize_blocks(const DynamicMap& map, const float* values, int64_t count, uint8_t* codes,
                     float* scales) {
  HWY_DYNAMIC_DISPATCH(quantize_all)(map, values, count, codes, scales);
}

void dequantize_blocks(const DynamicMap& map, const uint8_t* codes, const float* scales, int64_t count,
                       float* values) {
  HWY_DYNAMIC_DISPATCH(dequantize_all)(map, codes, scales, count, values);
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
