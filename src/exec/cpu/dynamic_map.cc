#include "exec/cpu/dynamic_map.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

#include "exec/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/dynamic_map.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/dynamic_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

void quantize_all(const DynamicMap& map, const float* values, int64_t count, uint8_t* codes, float* scales) {
  for (int64_t at = 0; at < count; at += kStateBlock) {
    const int64_t n = std::min(kStateBlock, count - at);
    FloatVector largest = set(0.0F);
    for_columns(at, at + n, [&](int64_t i, auto lanes) {
      largest = max_magnitude(largest, load(values + i, lanes), lanes);
    });
    scales[at / kStateBlock] = max_lanes(largest);
    quantize_block(map, values + at, n, scales[at / kStateBlock], codes + at);
  }
}

void dequantize_all(const DynamicMap& map, const uint8_t* codes, const float* scales, int64_t count,
                    float* values) {
  for (int64_t at = 0; at < count; at += kStateBlock) {
    const FloatVector scale = set(scales[at / kStateBlock]);
    for_columns(at, std::min(at + kStateBlock, count), [&](int64_t i, auto lanes) {
      store(dequantize(map, codes + i, scale, lanes), values + i, lanes);
    });
  }
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(quantize_all);
HWY_EXPORT(dequantize_all);

// Decades of the map, and intervals of the lowest; each decade above has twice as many.
constexpr int kDecades = 7;

// The numbers of one decade: middles of equal parts of [0.1, 1], scaled. The roundings are those of
// torch.linspace and of the products behind it.
template <class Add>
void add_decade(int decade, int parts, const Add& add) {
  const float step = (1.0F - 0.1F) / static_cast<float>(parts);
  const auto boundary = [&](int i) {
    return i < (parts + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                               : std::fma(-step, static_cast<float>(parts - i), 1.0F);
  };
  const auto scale = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
  for (int i = 0; i < parts; ++i) add(scale * ((boundary(i) + boundary(i + 1)) / 2.0F));
}

std::array<float, 256> make_values(bool is_signed) {
  std::array<float, 256> values{};
  size_t count = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    add_decade(decade, (is_signed ? 1 : 2) << decade, [&](float value) {
      values[count++] = value;
      if (is_signed) values[count++] = -value;
    });
  }
  values[count++] = 0.0F;
  values[count++] = 1.0F;
  CHECK(count == values.size(), "the dynamic map has {} numbers", count);
  std::sort(values.begin(), values.end());
  return values;
}

DynamicMap make_map(bool is_signed) {
  DynamicMap map{make_values(is_signed), {}};
  // The code of each point of the grid.
  std::array<uint8_t, kGridPoints> codes{};
  size_t code = 0;
  for (size_t point = 0; point < codes.size(); ++point) {
    const float value = -1.0F + 2.0F * static_cast<float>(point) / static_cast<float>(kGridPoints - 1);
    while (code < 255 && 0.5F * (map.values[code] + map.values[code + 1]) < value) ++code;
    codes[point] = static_cast<uint8_t>(code);
  }
  constexpr size_t kShared = size_t{1} << kGridCoarseBits;
  for (size_t entry = 0; entry < kGridCoarseEntries; ++entry) {
    const size_t first = entry * kShared;
    size_t change = first + 1;
    while (change < first + kShared && codes[change] == codes[first]) ++change;
    const size_t last = first + kShared - 1;
    const bool is_fine = first >= kGridFineBegin && first < kGridFineBegin + kGridFine;
    CHECK(is_fine || codes[last] <= codes[first] + 1, "points {} to {} have more than two codes", first,
          last);
    map.steps[entry] = codes[first] | static_cast<uint32_t>(change) << 8;
  }
  for (size_t i = 0; i < kGridFine; ++i)
    map.steps[kGridCoarseEntries + i] = codes[kGridFineBegin + i] | uint32_t{kGridPoints} << 8;
  return map;
}

}  // namespace

const DynamicMap& signed_dynamic_map() {
  static const DynamicMap map = make_map(true);
  return map;
}
const DynamicMap& unsigned_dynamic_map() {
  static const DynamicMap map = make_map(false);
  return map;
}

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
