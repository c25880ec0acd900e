// The turn of a pair of a head's columns (rotary.h), for kernels that have them in registers. Include it after
// hwy/foreach_target.h, once per target.
#if defined(SHOEHORN_EXEC_CPU_ROTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_ROTARY_INL_H_
#undef SHOEHORN_EXEC_CPU_ROTARY_INL_H_
#else
#define SHOEHORN_EXEC_CPU_ROTARY_INL_H_
#endif

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Columns i and i + P of a head.
struct Pair {
  FloatVector first;
  FloatVector second;
};

HWY_INLINE Pair turn(const Pair& x, FloatVector cosine, FloatVector sine) {
  return {hn::NegMulAdd(x.second, sine, hn::Mul(x.first, cosine)),
          hn::MulAdd(x.first, sine, hn::Mul(x.second, cosine))};
}

// The gradient of turn: its transpose, which turns the other way.
HWY_INLINE Pair turn_back(const Pair& y, FloatVector cosine, FloatVector sine) {
  return {hn::MulAdd(y.second, sine, hn::Mul(y.first, cosine)),
          hn::NegMulAdd(y.first, sine, hn::Mul(y.second, cosine))};
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
