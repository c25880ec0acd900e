// Codes of the dynamic map, a vector and a block at a time. Included once a target, like simd_math-inl.h.
#if defined(SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#undef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#else
#define SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#endif

#include <array>
#include <type_traits>
#include <utility>

#include "exec/cpu/dynamic_map.h"
#include "exec/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

using CodeTag = hn::Rebind<uint8_t, FloatTag>;
using CodeVector = hn::Vec<CodeTag>;
using IndexTag = hn::RebindToSigned<FloatTag>;
using IndexVector = hn::Vec<IndexTag>;

HWY_INLINE CodeVector load_codes(const uint8_t* from, AllLanes) {
  return hn::LoadU(CodeTag(), from);
}
HWY_INLINE CodeVector load_codes(const uint8_t* from, FirstLanes lanes) {
  HWY_ALIGN uint8_t buffer[hn::MaxLanes(CodeTag())] = {};
  std::memcpy(buffer, from, static_cast<size_t>(lanes.count));
  return hn::Load(CodeTag(), buffer);
}
HWY_INLINE void store_codes(CodeVector codes, uint8_t* to, AllLanes) {
  hn::StoreU(codes, CodeTag(), to);
}
HWY_INLINE void store_codes(CodeVector codes, uint8_t* to, FirstLanes lanes) {
  HWY_ALIGN uint8_t buffer[hn::MaxLanes(CodeTag())];
  hn::Store(codes, CodeTag(), buffer);
  std::memcpy(to, buffer, static_cast<size_t>(lanes.count));
}

// look_up: entries of a table by the low bits of each lane, the others of which are ignored; 4 bits, or 3
// where only 8 entries are used. low_bytes: the low 8 bits of each lane. Highway's own want the other bits to
// be zero.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE FloatVector look_up_16(const float* table, IndexVector index) {
  return FloatVector{_mm512_permutexvar_ps(index.raw, hn::Load(FloatTag(), table).raw)};
}
HWY_INLINE FloatVector look_up_8(const float* table, IndexVector index) {
  return look_up_16(table, index);
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return CodeVector{_mm512_cvtepi32_epi8(x.raw)};
}
#else
HWY_INLINE FloatVector look_up_8(const float* table, IndexVector index) {
  return FloatVector{_mm256_permutevar8x32_ps(hn::Load(FloatTag(), table).raw, index.raw)};
}
HWY_INLINE FloatVector look_up_16(const float* table, IndexVector index) {
  const FloatVector upper = hn::BitCast(FloatTag(), hn::ShiftLeft<28>(index));
  return hn::IfNegativeThenElse(upper, look_up_8(table + 8, index), look_up_8(table, index));
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return hn::DemoteTo(CodeTag(), hn::And(x, hn::Set(IndexTag(), 0xff)));
}
#endif

HWY_INLINE IndexVector bits_of(FloatVector x) {
  return hn::BitCast(IndexTag(), x);
}

// Both directions are long chains of operations that wait for each other, more of them than a processor looks
// ahead. So several vectors take each step together.
template <size_t kVectors, class Step>
HWY_INLINE auto each(const Step& step) {
  const auto all = [&]<size_t... k>(std::index_sequence<k...>) {
    return std::array{step(k)...};
  };
  return all(std::make_index_sequence<kVectors>());
}

template <size_t kVectors, class T, class Lanes>
HWY_INLINE auto load_each(const T* from, Lanes lanes) {
  return each<kVectors>(
      [&](size_t k) { return load(from + static_cast<int64_t>(k) * float_lanes(), lanes); });
}
template <size_t kVectors, class Lanes>
HWY_INLINE void store_each(const std::array<FloatVector, kVectors>& x, float* to, Lanes lanes) {
  for (size_t k = 0; k < kVectors; ++k) store(x[k], to + static_cast<int64_t>(k) * float_lanes(), lanes);
}

// The numbers that codes stand for, times their block's scale.
template <bool kSigned, size_t kVectors, class Lanes>
HWY_INLINE auto dequantize(const DynamicMap& map, const uint8_t* codes, FloatVector scale, Lanes lanes) {
  const auto from_zero = each<kVectors>([&](size_t k) {
    const CodeVector code = load_codes(codes + static_cast<int64_t>(k) * float_lanes(), lanes);
    const FloatVector number = hn::ConvertTo(FloatTag(), hn::PromoteTo(IndexTag(), code));
    return hn::Sub(number, set(kSigned ? 127.0F : -1.0F));
  });
  const auto rank = each<kVectors>([&](size_t k) { return kSigned ? hn::Abs(from_zero[k]) : from_zero[k]; });
  const auto exponent = each<kVectors>([&](size_t k) { return hn::ShiftRight<23>(bits_of(rank[k])); });
  const auto part = each<kVectors>([&](size_t k) { return look_up_16(map.part.data(), exponent[k]); });
  const auto t = each<kVectors>([&](size_t k) { return hn::MulSub(rank[k], part[k], set(1.0F)); });
  // A part lies in one half of its decade, and the boundary between the halves is the same number from either
  // start. Half the sum of its boundaries is the number.
  const auto start = each<kVectors>(
      [&](size_t k) { return hn::IfThenElse(hn::Lt(t[k], set(0.5F)), set(kLowerStart), set(kUpperStart)); });
  const auto end = each<kVectors>([&](size_t k) { return hn::Add(t[k], part[k]); });
  const auto low = each<kVectors>([&](size_t k) { return hn::MulAdd(set(kDecadeLength), t[k], start[k]); });
  const auto high =
      each<kVectors>([&](size_t k) { return hn::MulAdd(set(kDecadeLength), end[k], start[k]); });
  const auto value = each<kVectors>([&](size_t k) {
    FloatVector twice = hn::Add(low[k], high[k]);
    FloatVector half_scale = look_up_16(map.half_scale.data(), exponent[k]);
    if constexpr (kSigned) {
      // Rank 0 is below all decades.
      twice = hn::Max(twice, set(0.0F));
      half_scale = hn::CopySignToAbs(half_scale, from_zero[k]);
    }
    return hn::Mul(half_scale, twice);
  });
  return each<kVectors>([&](size_t k) { return hn::Mul(value[k], scale); });
}

// The larger of `largest` and |x|, lane by lane; lanes without a number, and dead ones, do not count. What
// the unsigned map holds is not negative.
template <bool kSigned, class Lanes>
HWY_INLINE FloatVector max_magnitude(FloatVector largest, FloatVector x, Lanes lanes) {
  return hn::Max(keep_live(kSigned ? hn::Abs(x) : x, lanes), largest);
}

// Codes of a block's numbers, given one over the largest magnitude among them. In a block of zeros that is
// infinite, their products with it are no numbers and their codes 0.
template <bool kSigned, size_t kVectors, class Lanes>
HWY_INLINE void quantize(const DynamicMap& map, const std::array<FloatVector, kVectors>& x,
                         FloatVector inverse_scale, uint8_t* codes, Lanes lanes) {
  // Numbers below have code 0 as well: of the signed map those nearer to its lowest number than to the next,
  // of the unsigned one all below zero. The grid's first point below zero is at the distance -1/2.
  const FloatVector lowest = set(kSigned ? -0.99F : -0x1p-16F);
  constexpr auto kEnd = static_cast<float>(kGridPoints - 1) / 2.0F;
  const auto inside = each<kVectors>(
      [&](size_t k) { return hn::Min(hn::Max(hn::Mul(x[k], inverse_scale), lowest), set(1.0F)); });
  const auto above = each<kVectors>([&](size_t k) { return hn::Add(inside[k], set(1.0F)); });
  const auto point = each<kVectors>([&](size_t k) { return hn::MulAdd(above[k], set(kEnd), set(0.5F)); });
  const auto floor = each<kVectors>([&](size_t k) { return hn::Floor(point[k]); });
  const auto from_zero = each<kVectors>([&](size_t k) { return hn::Sub(floor[k], set(kEnd)); });
  const auto distance =
      each<kVectors>([&](size_t k) { return kSigned ? hn::Abs(from_zero[k]) : from_zero[k]; });
  const auto to_line = each<kVectors>([&](size_t k) {
    const IndexVector exponent = hn::ShiftRight<23>(bits_of(distance[k]));
    return bits_of(look_up_16(reinterpret_cast<const float*>(map.to_line.data()), exponent));
  });
  const auto line =
      each<kVectors>([&](size_t k) { return hn::ShiftRight<23>(hn::Add(bits_of(distance[k]), to_line[k])); });
  const auto slope = each<kVectors>([&](size_t k) { return look_up_8(map.slope.data(), line[k]); });
  const auto intercept = each<kVectors>([&](size_t k) { return look_up_8(map.intercept.data(), line[k]); });
  const auto last = each<kVectors>([&](size_t k) { return look_up_8(map.last.data(), line[k]); });
  const auto on_line =
      each<kVectors>([&](size_t k) { return hn::MulAdd(distance[k], slope[k], intercept[k]); });
  const auto rank = each<kVectors>([&](size_t k) {
    const FloatVector magnitude = hn::Min(on_line[k], last[k]);
    return kSigned ? hn::CopySignToAbs(magnitude, from_zero[k]) : magnitude;
  });
  // Sums of this size have no digits behind the point; their low bits are the rank, rounded.
  const auto sum = each<kVectors>(
      [&](size_t k) { return bits_of(hn::Add(rank[k], set(0x1.8p23F + (kSigned ? 127.0F : -1.0F)))); });
  for (size_t k = 0; k < kVectors; ++k)
    store_codes(low_bytes(sum[k]), codes + static_cast<int64_t>(k) * float_lanes(), lanes);
}

// Calls body(i, lanes, number of vectors) for [0, count): pairs of vectors, then single ones, the ragged end
// last.
template <class Body>
HWY_INLINE void for_vectors(int64_t count, const Body& body) {
  const int64_t step = 2 * float_lanes();
  const int64_t paired = count / step * step;
  for (int64_t i = 0; i < paired; i += step) body(i, AllLanes(), std::integral_constant<size_t, 2>());
  for_columns(paired, count,
              [&](int64_t i, auto lanes) { body(i, lanes, std::integral_constant<size_t, 1>()); });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
