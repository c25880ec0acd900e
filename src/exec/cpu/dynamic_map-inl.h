// Codes of the dynamic map, a vector and a block at a time. Included once a target, like simd_math-inl.h.
#if defined(SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#undef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#else
#define SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#endif

#include <array>
#include <limits>
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

// A table of 16, and its entries by the low 4 bits of each lane, the others of which are ignored. low_bytes:
// the low 8 bits of each lane. nearest: rounded to even, of what is no number one whose low bits are zero.
// Highway's own want the other bits to be zero, and treat what is no number.
//
// min_magnitude: of two numbers the one nearer to zero, with the sign of the first; max_magnitude: the larger
// magnitude, of which the second is one; lanes of the first that are no number do not count.
// floor_to_fours: a multiple of 4 not above x in [0, 2^20), less an offset that is one.
#if HWY_TARGET <= HWY_AVX3
struct Table {
  FloatVector entries;
};
HWY_INLINE Table load_table(const float* from) {
  return {load(from)};
}
HWY_INLINE Table scaled_table(const float* from, FloatVector factor) {
  return {hn::Mul(load(from), factor)};
}
HWY_INLINE FloatVector look_up(const Table& table, IndexVector index) {
  return FloatVector{_mm512_permutexvar_ps(index.raw, table.entries.raw)};
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return CodeVector{_mm512_cvtepi32_epi8(x.raw)};
}
HWY_INLINE IndexVector nearest(FloatVector x) {
  return IndexVector{_mm512_cvtps_epi32(x.raw)};
}
HWY_INLINE FloatVector min_magnitude(FloatVector x, FloatVector y) {
  return FloatVector{_mm512_range_ps(x.raw, y.raw, 0b0010)};
}
HWY_INLINE FloatVector max_magnitude(FloatVector x, FloatVector y) {
  return FloatVector{_mm512_range_ps(x.raw, y.raw, 0b1011)};
}
HWY_INLINE FloatVector floor_to_fours(FloatVector x, float offset) {
  constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const FloatVector sum{_mm512_add_round_ps(x.raw, set(0x1p25F).raw, kDown)};
  return hn::Sub(sum, set(0x1p25F + offset));
}
#else
struct Table {
  FloatVector low;
  FloatVector high;
};
HWY_INLINE Table load_table(const float* from) {
  return {load(from), load(from + 8)};
}
HWY_INLINE Table scaled_table(const float* from, FloatVector factor) {
  return {hn::Mul(load(from), factor), hn::Mul(load(from + 8), factor)};
}
HWY_INLINE FloatVector look_up(const Table& table, IndexVector index) {
  const FloatVector upper = hn::BitCast(FloatTag(), hn::ShiftLeft<28>(index));
  const FloatVector low{_mm256_permutevar8x32_ps(table.low.raw, index.raw)};
  const FloatVector high{_mm256_permutevar8x32_ps(table.high.raw, index.raw)};
  return hn::IfNegativeThenElse(upper, high, low);
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return hn::DemoteTo(CodeTag(), hn::And(x, hn::Set(IndexTag(), 0xff)));
}
HWY_INLINE IndexVector nearest(FloatVector x) {
  return IndexVector{_mm256_cvtps_epi32(x.raw)};
}
HWY_INLINE FloatVector min_magnitude(FloatVector x, FloatVector y) {
  return hn::CopySign(hn::Min(hn::Abs(x), y), x);
}
HWY_INLINE FloatVector max_magnitude(FloatVector x, FloatVector y) {
  return hn::Max(hn::Abs(x), y);
}
HWY_INLINE FloatVector floor_to_fours(FloatVector x, float offset) {
  return hn::MulSub(hn::Floor(hn::Mul(x, set(0.25F))), set(4.0F), set(offset));
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

// The numbers that codes stand for, times a factor, from a map's lines times that factor.
struct NumberLines {
  Table slope;
  Table intercept;
};
HWY_INLINE NumberLines number_lines(const DynamicMap& map, FloatVector factor) {
  return {scaled_table(map.number_slope.data(), factor), scaled_table(map.number_intercept.data(), factor)};
}

template <bool kSigned, size_t kVectors, class Lanes>
HWY_INLINE auto dequantize(const NumberLines& lines, const uint8_t* codes, Lanes lanes) {
  const auto rank = each<kVectors>([&](size_t k) {
    const CodeVector code = load_codes(codes + static_cast<int64_t>(k) * float_lanes(), lanes);
    const FloatVector number = hn::ConvertTo(FloatTag(), hn::PromoteTo(IndexTag(), code));
    return hn::MulAdd(number, set(4.0F), set(kSigned ? -4 * 127.0F : 4.0F));
  });
  const auto exponent = each<kVectors>([&](size_t k) { return hn::ShiftRight<23>(bits_of(rank[k])); });
  return each<kVectors>([&](size_t k) {
    const FloatVector slope = look_up(lines.slope, exponent[k]);
    const FloatVector intercept = look_up(lines.intercept, exponent[k]);
    if constexpr (kSigned) {
      const FloatVector sign = hn::And(rank[k], set(-0.0F));
      return hn::MulAdd(rank[k], slope, hn::Xor(intercept, sign));
    }
    // Below the normal numbers the two may round to what is less than zero, of which there is no root.
    return hn::Max(set(0.0F), hn::MulAdd(rank[k], slope, intercept));
  });
}

// The larger of `largest` and |x|, lane by lane; lanes without a number, and dead ones, do not count. What
// the unsigned map holds is not negative.
template <bool kSigned, class Lanes>
HWY_INLINE FloatVector larger(FloatVector largest, FloatVector x, Lanes lanes) {
  const FloatVector live = keep_live(x, lanes);
  return kSigned ? max_magnitude(live, largest) : hn::Max(live, largest);
}

// What a block's numbers are multiplied by before they are rounded, given their largest magnitude. A block of
// zeros, whose codes are 0, has none; one below the normal numbers stays finite.
HWY_INLINE FloatVector inverse_scale(float scale) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  return set(scale == 0 ? kNone : HWY_MIN(1.0F / scale, std::numeric_limits<float>::max()));
}

struct CodeLines {
  Table to_line;
  Table slope;
  Table intercept;
  Table last;
};
HWY_INLINE CodeLines code_lines(const DynamicMap& map) {
  return {load_table(reinterpret_cast<const float*>(map.to_line.data())), load_table(map.slope.data()),
          load_table(map.intercept.data()), load_table(map.last.data())};
}

// The distance from zero of the grid's point at or below numbers that begin at zero: 1 stands for zero.
template <bool kSigned>
HWY_INLINE FloatVector distance_of_point(FloatVector above) {
  constexpr auto kEnd = static_cast<float>(kGridPoints - 1) / 2.0F;
  if constexpr (kSigned) return hn::Sub(hn::Floor(hn::MulAdd(above, set(kEnd), set(0.5F))), set(kEnd));
  return floor_to_fours(hn::MulAdd(above, set(4 * kEnd), set(2.0F)), 2.0F * kGridPoints);
}

// Codes of a block's numbers, given its inverse_scale().
template <bool kSigned, size_t kVectors, class Lanes>
HWY_INLINE void quantize(const CodeLines& lines, const std::array<FloatVector, kVectors>& x,
                         FloatVector inverse, uint8_t* codes, Lanes lanes) {
  const auto above = each<kVectors>([&](size_t k) {
    FloatVector scaled = hn::Mul(x[k], inverse);
    // Nearer to the lowest number than to the next, and what is no number: code 0.
    if constexpr (kSigned) scaled = hn::Max(scaled, set(-0.99F));
    return hn::Add(scaled, set(1.0F));
  });
  const auto distance = each<kVectors>([&](size_t k) { return distance_of_point<kSigned>(above[k]); });
  const auto to_line = each<kVectors>(
      [&](size_t k) { return bits_of(look_up(lines.to_line, hn::ShiftRight<23>(bits_of(distance[k])))); });
  const auto line =
      each<kVectors>([&](size_t k) { return hn::ShiftRight<28>(hn::Add(bits_of(distance[k]), to_line[k])); });
  const auto on_line = each<kVectors>([&](size_t k) {
    return hn::MulAdd(distance[k], look_up(lines.slope, line[k]), look_up(lines.intercept, line[k]));
  });
  const auto code = each<kVectors>([&](size_t k) {
    const FloatVector last = look_up(lines.last, line[k]);
    // A sum of the signed map has no digits behind the point; its low bits are the code, rounded.
    if constexpr (kSigned) return bits_of(hn::Add(min_magnitude(on_line[k], last), set(0x1.8p23F + 127.0F)));
    return nearest(hn::Min(last, on_line[k]));
  });
  for (size_t k = 0; k < kVectors; ++k)
    store_codes(low_bytes(code[k]), codes + static_cast<int64_t>(k) * float_lanes(), lanes);
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
