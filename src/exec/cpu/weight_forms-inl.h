// The two forms of a weight in memory, as SIMD kernels read and write them. Included once a target, like
// simd_math-inl.h.
#if defined(SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#undef SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#else
#define SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
#endif

#include "exec/cpu/optimizer_kernels.h"
#include "exec/cpu/simd_math-inl.h"
#include "exec/cpu/storage.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

struct PlainWeight {
  float* value;
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

// -1 or 1; zero stays zero, and what is no number stays none.
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
    } else {
      function(SplitWeight{&view.high->bits, reinterpret_cast<uint16_t*>(view.rest)}, type);
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOEHORN_EXEC_CPU_WEIGHT_FORMS_INL_H_
