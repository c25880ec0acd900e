// The three forms of a weight in memory, as SIMD kernels read and write them. Included once per target, like
// simd_math-inl.h.
//
// Before elements are written, their random bits must be drawn: draw(begin, end), at most kDrawnElements at a
// time. for_weight_elements does that. For forms that need no random bits it costs nothing.
#if defined(SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#undef SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#else
#define SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "exec/cpu/simd/philox_simd-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"
#include "exec/cpu/storage.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// A multiple of every vector's lanes and of kStateBlock.
inline constexpr int64_t kDrawnElements = 2048;

struct PlainWeight {
  float* value;
  HWY_INLINE void draw(int64_t, int64_t) const {}
  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch(value + i); }
  template <class Lanes>
  HWY_INLINE FloatVector get(int64_t i, Lanes lanes) const {
    return load(value + i, lanes);
  }
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) const {
    store(x, value + i, lanes);
  }
};

// int16_t and uint16_t may name the same memory, and bfloat16 is one uint16_t.
struct SplitWeight {
  uint16_t* high;
  uint16_t* rest;
  HWY_INLINE void draw(int64_t, int64_t) const {}
  HWY_INLINE void prefetch(int64_t i) const {
    hwy::Prefetch(high + i);
    hwy::Prefetch(rest + i);
  }
  template <class Lanes>
  HWY_INLINE FloatVector get(int64_t i, Lanes lanes) const {
    return join_master(load_half(high + i, lanes), load_half(rest + i, lanes));
  }
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) const {
    const SplitVector split = split_master(x);
    store_half(split.high, high + i, lanes);
    store_half(split.rest, rest + i, lanes);
  }
};

// A bfloat16 without a master; put() rounds stochastically.
class RoundedWeight {
 public:
  HWY_INLINE RoundedWeight(uint16_t* bits, const Rounding& rounding)
      : bits_(bits),
        first_element_(rounding.first_element),
        row_{philox_key(rounding.seed, *rounding.step, rounding.stream_id), 0, 0, kRoundingExtra} {}

  // Blocks of random bits begin at multiples of 8 of the parameter's elements.
  HWY_INLINE void draw(int64_t begin, int64_t end) {
    const hn::Repartition<uint16_t, PhiloxTag> d16;
    const int64_t element = first_element_ + begin;
    origin_ = begin - element % 8;
    philox_half_words(row_, static_cast<uint32_t>(element / 8), end - origin_,
                      [&](int64_t i, auto half_words) { hn::StoreU(half_words, d16, drawn_ + i); });
  }

  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch(bits_ + i); }
  template <class Lanes>
  HWY_INLINE FloatVector get(int64_t i, Lanes lanes) const {
    return widen_bfloat16(load_half(bits_ + i, lanes));
  }
  template <class Lanes>
  HWY_INLINE void put(FloatVector x, int64_t i, Lanes lanes) const {
    store_half(round_stochastically(x, load_half(drawn_ + (i - origin_))), bits_ + i, lanes);
  }

 private:
  uint16_t* bits_;
  int64_t first_element_;
  PhiloxRow row_;
  int64_t origin_ = 0;  // the element of the first bits in drawn_
  // The last vector may read past what was drawn.
  alignas(64) uint16_t drawn_[philox_elements(kDrawnElements) + hn::MaxLanes(FloatTag())];
};

// Calls body(i, lanes) for the elements [begin, end), one vector at a time, after drawing their bits.
template <class Weight, class Body>
HWY_INLINE void for_weight_elements(Weight& weight, int64_t begin, int64_t end, const Body& body) {
  for (int64_t at = begin; at < end; at += kDrawnElements) {
    const int64_t to = HWY_MIN(at + kDrawnElements, end);
    weight.draw(at, to);
    for_columns(at, to, body);
  }
}

// The gradient that updates use: scaled, then clamped. NaN stays NaN.
HWY_INLINE FloatVector formed(FloatVector gradient, const GradientForm& form) {
  const FloatVector scaled = hn::Mul(gradient, set(form.scale));
  return hn::Max(set(-form.most), hn::Min(set(form.most), scaled));
}

// -1 or 1; 0 for zero; NaN for NaN.
HWY_INLINE FloatVector sign(FloatVector x) {
  const auto has_sign = hn::Or(hn::Lt(x, set(0.0F)), hn::Gt(x, set(0.0F)));
  return hn::IfThenElse(has_sign, hn::CopySign(set(1.0F), x), x);
}

// Calls function(weight, T{}) with the weight's form and the gradient's type.
template <class Function>
HWY_INLINE void with_weight(const WeightView& view, DType gradient_dtype, const Function& function) {
  with_storage(gradient_dtype, [&](auto type) {
    if (view.value != nullptr) {
      function(PlainWeight{view.value}, type);
    } else if (view.rest != nullptr) {
      function(SplitWeight{&view.high->bits, reinterpret_cast<uint16_t*>(view.rest)}, type);
    } else {
      function(RoundedWeight(&view.high->bits, view.rounding), type);
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
