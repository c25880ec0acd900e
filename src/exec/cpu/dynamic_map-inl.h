// Codes of the dynamic map, a vector and a block at a time. Included once a target, like simd_math-inl.h.
#if defined(SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#undef SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#else
#define SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
#endif

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

// Twice the number between two parts' boundaries is their sum; t is a boundary's place in its decade.
HWY_INLINE FloatVector decade_boundary(FloatVector t) {
  const FloatVector start = hn::IfThenElse(hn::Lt(t, set(0.5F)), set(kLowerStart), set(kUpperStart));
  return hn::MulAdd(set(kDecadeLength), t, start);
}

// The numbers that codes stand for, times their block's scale.
template <bool kSigned, class Lanes>
HWY_INLINE FloatVector dequantize(const DynamicMap& map, const uint8_t* codes, FloatVector scale,
                                  Lanes lanes) {
  const FloatVector code = hn::ConvertTo(FloatTag(), hn::PromoteTo(IndexTag(), load_codes(codes, lanes)));
  const FloatVector from_zero = hn::Sub(code, set(kSigned ? 127.0F : -1.0F));
  const FloatVector rank = kSigned ? hn::Abs(from_zero) : from_zero;
  const IndexVector exponent = hn::ShiftRight<23>(bits_of(rank));
  const FloatVector part = look_up_16(map.part.data(), exponent);
  const FloatVector t = hn::MulSub(rank, part, set(1.0F));
  const FloatVector twice = hn::Add(decade_boundary(t), decade_boundary(hn::Add(t, part)));
  FloatVector value = hn::Mul(look_up_16(map.half_scale.data(), exponent), twice);
  if constexpr (kSigned) {
    value = hn::IfThenElseZero(hn::Ne(rank, set(0.0F)), value);
    value = hn::CopySignToAbs(value, from_zero);
  }
  return hn::Mul(value, scale);
}

// The larger of `largest` and |x|, lane by lane; lanes without a number, and dead ones, do not count.
HWY_INLINE FloatVector max_magnitude(FloatVector largest, FloatVector x, AllLanes) {
  return hn::Max(hn::Abs(x), largest);
}
HWY_INLINE FloatVector max_magnitude(FloatVector largest, FloatVector x, FirstLanes lanes) {
  const auto live = hn::FirstN(FloatTag(), static_cast<size_t>(lanes.count));
  return hn::Max(hn::IfThenElseZero(live, hn::Abs(x)), largest);
}

// Codes of numbers in [-1, 1]; beyond, of the nearer end; of what is no number, 0.
template <bool kSigned>
HWY_INLINE CodeVector find_codes(const DynamicMap& map, FloatVector x) {
  // Numbers below have code 0 as well: of the signed map those nearer to its lowest number than to the next,
  // of the unsigned one all below zero. The grid's first point below zero is at the distance -1/2.
  const FloatVector lowest = set(kSigned ? -0.99F : -0x1p-16F);
  const FloatVector inside = hn::Min(hn::Max(x, lowest), set(1.0F));
  constexpr auto kEnd = static_cast<float>(kGridPoints - 1) / 2.0F;
  const FloatVector point = hn::Floor(hn::MulAdd(hn::Add(inside, set(1.0F)), set(kEnd), set(0.5F)));
  const FloatVector from_zero = hn::Sub(point, set(kEnd));
  const FloatVector distance = kSigned ? hn::Abs(from_zero) : from_zero;

  const IndexVector exponent = hn::ShiftRight<23>(bits_of(distance));
  const FloatVector to_line = look_up_16(reinterpret_cast<const float*>(map.to_line.data()), exponent);
  const IndexVector line = hn::ShiftRight<23>(hn::Add(bits_of(distance), bits_of(to_line)));
  FloatVector rank =
      hn::MulAdd(distance, look_up_8(map.slope.data(), line), look_up_8(map.intercept.data(), line));
  rank = hn::Min(rank, look_up_8(map.last.data(), line));
  if constexpr (kSigned) rank = hn::CopySignToAbs(rank, from_zero);
  // A sum of this size has no digits behind the point; its low bits are the rank, rounded.
  const FloatVector sum = hn::Add(rank, set(0x1.8p23F + (kSigned ? 127.0F : -1.0F)));
  return low_bytes(bits_of(sum));
}

// Codes of one block, given the largest magnitude in it.
template <bool kSigned>
HWY_INLINE void quantize_block(const DynamicMap& map, const float* values, int64_t count, float scale,
                               uint8_t* codes) {
  if (scale == 0.0F) {
    std::memset(codes, 0, static_cast<size_t>(count));
    return;
  }
  const FloatVector inverse = set(1.0F / scale);
  for_columns(0, count, [&](int64_t i, auto lanes) {
    store_codes(find_codes<kSigned>(map, hn::Mul(load(values + i, lanes), inverse)), codes + i, lanes);
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
