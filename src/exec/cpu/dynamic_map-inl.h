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

// The numbers that codes stand for, times their block's scale.
template <class Lanes>
HWY_INLINE FloatVector dequantize(const DynamicMap& map, const uint8_t* codes, FloatVector scale,
                                  Lanes lanes) {
  const IndexVector index = hn::PromoteTo(IndexTag(), load_codes(codes, lanes));
  return hn::Mul(hn::GatherIndex(FloatTag(), map.values.data(), index), scale);
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
HWY_INLINE IndexVector find_codes(const DynamicMap& map, FloatVector x) {
  const IndexTag di;
  const FloatVector inside = hn::Min(hn::Max(x, set(-1.0F)), set(1.0F));
  const FloatVector scaled = hn::Mul(hn::Add(inside, set(1.0F)), set(0.5F));
  const IndexVector point =
      hn::ConvertTo(di, hn::MulAdd(scaled, set(static_cast<float>(kGridPoints - 1)), set(0.5F)));
  const IndexVector fine = hn::Sub(point, hn::Set(di, kGridFineBegin));
  const auto is_fine = hn::And(hn::Gt(fine, hn::Set(di, -1)), hn::Lt(fine, hn::Set(di, kGridFine)));
  const IndexVector index = hn::IfThenElse(is_fine, hn::Add(fine, hn::Set(di, kGridCoarseEntries)),
                                           hn::ShiftRight<kGridCoarseBits>(point));
  const IndexVector step = hn::GatherIndex(di, reinterpret_cast<const int32_t*>(map.steps.data()), index);
  const IndexVector code = hn::And(step, hn::Set(di, 0xff));
  // A mask of true lanes is -1 in each.
  const auto before = hn::Lt(point, hn::ShiftRight<8>(step));
  return hn::Add(code, hn::IfThenZeroElse(before, hn::Set(di, 1)));
}

// Codes of one block, given the largest magnitude in it.
HWY_INLINE void quantize_block(const DynamicMap& map, const float* values, int64_t count, float scale,
                               uint8_t* codes) {
  if (scale == 0.0F) {
    std::memset(codes, 0, static_cast<size_t>(count));
    return;
  }
  const FloatVector inverse = set(1.0F / scale);
  for_columns(0, count, [&](int64_t i, auto lanes) {
    const IndexVector found = find_codes(map, hn::Mul(load(values + i, lanes), inverse));
    store_codes(hn::DemoteTo(CodeTag(), found), codes + i, lanes);
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOEHORN_EXEC_CPU_DYNAMIC_MAP_INL_H_
