// Codes of the dynamic map, a vector and a block at a time. Included once per target, like simd_math-inl.h.
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

#include "exec/cpu/simd/dynamic_map.h"
#include "exec/cpu/simd/simd_math-inl.h"

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

// Operations that AVX-512 and AVX2 implement differently. (Highway's own look-ups need the ignored bits to be
// zero, and its conversions treat NaN specially.)
//
//   Table, look_up     16 entries, selected by the low 4 bits of each lane; the other bits are ignored
//   fours              4 * code + offset
//   store_low_bytes    the low 8 bits of each lane, for two states with two vectors each
//   nearest            rounds to nearest even; for NaN a number whose low bits are zero
//   min_magnitude      of two numbers the one nearer to zero, with the sign of the first
//   max_magnitude      the larger magnitude, of which the second operand is one; NaN in the first is ignored
//   signed_distance,   the distance from zero of the grid point at or below, given 4 * (number of points
//   unsigned_distance  below)
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
// Puts each code into the last byte of 2^25, whose last digit is worth 4.
template <class Lanes>
HWY_INLINE FloatVector fours(const uint8_t* codes, float offset, Lanes lanes) {
  const __m512i in_each_quarter = _mm512_broadcast_i32x4(load_codes(codes, lanes).raw);
  const __m512i large = _mm512_castps_si512(set(0x1p25F).raw);
  const __m512i sum =
      _mm512_mask_shuffle_epi8(large, 0x1111111111111111, in_each_quarter, hn::Iota(IndexTag(), 0).raw);
  return hn::Sub(FloatVector{_mm512_castsi512_ps(sum)}, set(0x1p25F - offset));
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return CodeVector{_mm512_cvtepi32_epi8(x.raw)};
}
// Gathers each vector's bytes into one word per 128-bit quarter, then puts the words in order.
HWY_INLINE void store_low_bytes(const std::array<IndexVector, 2>& x, uint8_t* to_x,
                                const std::array<IndexVector, 2>& y, uint8_t* to_y) {
  const __m512i first_bytes = _mm512_set1_epi32(0x0c080400);
  __m512i words = _mm512_shuffle_epi8(x[0].raw, first_bytes);
  words = _mm512_mask_shuffle_epi8(words, 0x00f000f000f000f0, x[1].raw, first_bytes);
  words = _mm512_mask_shuffle_epi8(words, 0x0f000f000f000f00, y[0].raw, first_bytes);
  words = _mm512_mask_shuffle_epi8(words, 0xf000f000f000f000, y[1].raw, first_bytes);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  words = _mm512_permutexvar_epi32(order, words);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_x), _mm512_castsi512_si256(words));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_y), _mm512_extracti64x4_epi64(words, 1));
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
HWY_INLINE FloatVector add_rounding_down(FloatVector x, float y) {
  constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  return FloatVector{_mm512_add_round_ps(x.raw, set(y).raw, kDown)};
}
HWY_INLINE FloatVector signed_distance(FloatVector x) {
  return hn::MulSub(add_rounding_down(x, kSignedFloor), set(kStretch), set(kSignedCentre));
}
HWY_INLINE FloatVector unsigned_distance(FloatVector x) {
  return hn::Sub(add_rounding_down(x, 0x1p25F), set(0x1p25F + 2.0F * kGridPoints));
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
template <class Lanes>
HWY_INLINE FloatVector fours(const uint8_t* codes, float offset, Lanes lanes) {
  const IndexVector whole = hn::PromoteTo(IndexTag(), load_codes(codes, lanes));
  return hn::MulAdd(hn::ConvertTo(FloatTag(), whole), set(4.0F), set(offset));
}
HWY_INLINE CodeVector low_bytes(IndexVector x) {
  return hn::DemoteTo(CodeTag(), hn::And(x, hn::Set(IndexTag(), 0xff)));
}
HWY_INLINE void store_low_bytes(const std::array<IndexVector, 2>& x, uint8_t* to_x,
                                const std::array<IndexVector, 2>& y, uint8_t* to_y) {
  for (size_t k = 0; k < 2; ++k) {
    store_codes(low_bytes(x[k]), to_x + static_cast<int64_t>(k) * float_lanes(), AllLanes());
    store_codes(low_bytes(y[k]), to_y + static_cast<int64_t>(k) * float_lanes(), AllLanes());
  }
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
HWY_INLINE FloatVector signed_distance(FloatVector x) {
  return hn::Mul(floor_to_fours(x, 2.0F * (kGridPoints - 1)), set(kStretch));
}
HWY_INLINE FloatVector unsigned_distance(FloatVector x) {
  return floor_to_fours(x, 2.0F * kGridPoints);
}
#endif

HWY_INLINE IndexVector bits_of(FloatVector x) {
  return hn::BitCast(IndexTag(), x);
}

// Both directions are long chains of dependent operations, longer than a processor looks ahead. So several
// vectors take each step together.
template <size_t kVectors, class Step>
HWY_INLINE auto each(const Step& step) {
  const auto all = [&]<size_t... k>(std::index_sequence<k...>) { return std::array{step(k)...}; };
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

// The numbers that codes stand for, times a factor: the lines of a map, multiplied by that factor.
struct NumberLines {
  Table slope;
  Table intercept;
};
template <bool kSigned>
HWY_INLINE NumberLines number_lines(const DynamicMap& map, float factor) {
  // Lines with subnormal coefficients may round to less than zero, which has no square root.
  const FloatVector by = set(!kSigned && factor < kSmallestUnsignedScale ? 0.0F : factor);
  return {scaled_table(map.number_slope.data(), by), scaled_table(map.number_intercept.data(), by)};
}

template <bool kSigned, size_t kVectors, class Lanes>
HWY_INLINE auto dequantize(const NumberLines& lines, const uint8_t* codes, Lanes lanes) {
  const auto rank = each<kVectors>([&](size_t k) {
    return fours(codes + static_cast<int64_t>(k) * float_lanes(), kSigned ? -4 * 127.0F : 4.0F, lanes);
  });
  const auto exponent = each<kVectors>([&](size_t k) { return hn::ShiftRight<23>(bits_of(rank[k])); });
  return each<kVectors>([&](size_t k) {
    const FloatVector slope = look_up(lines.slope, exponent[k]);
    const FloatVector intercept = look_up(lines.intercept, exponent[k]);
    if constexpr (!kSigned) return hn::MulAdd(rank[k], slope, intercept);
    const FloatVector sign = hn::And(rank[k], set(-0.0F));
    return hn::MulAdd(rank[k], slope, hn::Xor(intercept, sign));
  });
}

// The larger of `largest` and |x| in each lane. NaN lanes and unused lanes are ignored. The values of the
// unsigned map are not negative.
template <bool kSigned, class Lanes>
HWY_INLINE FloatVector larger(FloatVector largest, FloatVector x, Lanes lanes) {
  const FloatVector live = keep_live(x, lanes);
  return kSigned ? max_magnitude(live, largest) : hn::Max(live, largest);
}

// The factor of a block's numbers before rounding, given their largest magnitude. It stays finite for small
// ones.
HWY_INLINE FloatVector inverse_scale(float scale) {
  return set(HWY_MIN(1.0F / scale, std::numeric_limits<float>::max()));
}

// Sets the codes of a block of zeros to 0 (not to the code next to zero).
HWY_INLINE void clear_if_zero(float scale, uint8_t* codes, int64_t count) {
  if (scale == 0) std::memset(codes, 0, static_cast<size_t>(count));
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

// The distance from zero of the grid point at or below x, for above = x + 1.
template <bool kSigned>
HWY_INLINE FloatVector distance_of_point(FloatVector above) {
  const FloatVector fours = hn::MulAdd(above, set(2.0F * (kGridPoints - 1)), set(2.0F));
  return kSigned ? signed_distance(fours) : unsigned_distance(fours);
}

// Vectors whose low bytes are the codes of a block's numbers, given its inverse_scale().
template <bool kSigned, size_t kVectors>
HWY_INLINE auto quantize(const CodeLines& lines, const std::array<FloatVector, kVectors>& x,
                         FloatVector inverse) {
  const auto above = each<kVectors>([&](size_t k) { return hn::Add(hn::Mul(x[k], inverse), set(1.0F)); });
  const auto distance = each<kVectors>([&](size_t k) { return distance_of_point<kSigned>(above[k]); });
  const auto to_line = each<kVectors>(
      [&](size_t k) { return bits_of(look_up(lines.to_line, hn::ShiftRight<23>(bits_of(distance[k])))); });
  const auto line =
      each<kVectors>([&](size_t k) { return hn::ShiftRight<28>(hn::Add(bits_of(distance[k]), to_line[k])); });
  const auto on_line = each<kVectors>([&](size_t k) {
    return hn::MulAdd(distance[k], look_up(lines.slope, line[k]), look_up(lines.intercept, line[k]));
  });
  return each<kVectors>([&](size_t k) {
    const FloatVector last = look_up(lines.last, line[k]);
    // For the signed map the sum has no fractional bits left; its low bits are the rounded code.
    if constexpr (kSigned) return bits_of(hn::Add(min_magnitude(on_line[k], last), set(0x1.8p23F + 127.0F)));
    return nearest(hn::Min(last, on_line[k]));
  });
}

template <size_t kVectors, class Lanes>
HWY_INLINE void store_low_bytes(const std::array<IndexVector, kVectors>& x, uint8_t* to, Lanes lanes) {
  for (size_t k = 0; k < kVectors; ++k)
    store_codes(low_bytes(x[k]), to + static_cast<int64_t>(k) * float_lanes(), lanes);
}

// Calls body(i, lanes, number of vectors) for [0, count): pairs of vectors, then single ones; the ragged end
// is last.
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
