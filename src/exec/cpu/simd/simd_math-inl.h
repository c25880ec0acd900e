// Vector arithmetic that the kernels share: loads and stores of float32, bfloat16 and float16, and elementary
// functions in float32.
//
// Include it after hwy/foreach_target.h, once per target. Everything is in shoehorn::cpu::HWY_NAMESPACE.
// `Lanes` says how much of a vector is used: AllLanes, or FirstLanes{count} at the ragged end of a row; TwoVectors is
// more than one. A partial load fills the other lanes with zeros; a partial store leaves the memory behind them unchanged.
// 16-bit floats are widened on load and rounded to nearest even on store; NaN stays NaN (defined in
// base/bfloat16.h and base/float16.h).
//
// Largest errors against double precision over all floats, in units in the last place of float32: exp 1,
// expm1 1.5, tanh 2.5, erf 1.5, sigmoid 3. The polynomials are our own minimax fits (Lawson's reweighting) of
// the expressions named beside them. NaN goes in, NaN comes out: where a value is clamped, it is the second
// operand of Min and Max, which x86 returns when an operand is not a number.
#if defined(SHOEHORN_EXEC_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_SIMD_MATH_INL_H_
#undef SHOEHORN_EXEC_CPU_SIMD_MATH_INL_H_
#else
#define SHOEHORN_EXEC_CPU_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "base/bfloat16.h"
#include "base/float16.h"

// Highway's scalar fallback lacks the 16-bit operations.
#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

struct AllLanes {};
struct FirstLanes {
  int64_t count;
};

HWY_INLINE int64_t float_lanes() {
  return static_cast<int64_t>(hn::Lanes(FloatTag()));
}

HWY_INLINE FloatVector set(float value) {
  return hn::Set(FloatTag(), value);
}

// ---- float32, bfloat16 and float16 memory

HWY_INLINE FloatVector load(const float* from, AllLanes = {}) {
  return hn::LoadU(FloatTag(), from);
}

HWY_INLINE FloatVector load(const float* from, FirstLanes lanes) {
  const FloatTag d;
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(lanes.count)), d, from);
}

HWY_INLINE void store(FloatVector value, float* to, AllLanes = {}) {
  hn::StoreU(value, FloatTag(), to);
}

HWY_INLINE void store(FloatVector value, float* to, FirstLanes lanes) {
  const FloatTag d;
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(lanes.count)), d, to);
}

using HalfTag = hn::Rebind<uint16_t, FloatTag>;
using HalfVector = hn::Vec<HalfTag>;

HWY_INLINE FloatVector widen_bfloat16(HalfVector bits) {
  const hn::RebindToSigned<FloatTag> di;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(di, bits)));
}

// The bits of float32 whose upper halves are the bfloat16.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<FloatTag>> rounded_bfloat16_bits(FloatVector value) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
}

HWY_INLINE HalfVector round_bfloat16(FloatVector value) {
  return hn::TruncateTo(HalfTag(), hn::ShiftRight<16>(rounded_bfloat16_bits(value)));
}

// 16-bit lanes have no masked loads below AVX-512, so ragged ends go through a buffer of one vector.
HWY_INLINE HalfVector load_half(const uint16_t* from, AllLanes = {}) {
  return hn::LoadU(HalfTag(), from);
}

HWY_INLINE HalfVector load_half(const uint16_t* from, FirstLanes lanes) {
  HWY_ALIGN uint16_t buffer[hn::MaxLanes(HalfTag())] = {};
  std::memcpy(buffer, from, static_cast<size_t>(lanes.count) * sizeof(uint16_t));
  return hn::Load(HalfTag(), buffer);
}

HWY_INLINE void store_half(HalfVector value, uint16_t* to, AllLanes = {}) {
  hn::StoreU(value, HalfTag(), to);
}

HWY_INLINE void store_half(HalfVector value, uint16_t* to, FirstLanes lanes) {
  HWY_ALIGN uint16_t buffer[hn::MaxLanes(HalfTag())];
  hn::Store(value, HalfTag(), buffer);
  std::memcpy(to, buffer, static_cast<size_t>(lanes.count) * sizeof(uint16_t));
}

template <class Lanes = AllLanes>
HWY_INLINE FloatVector load(const bfloat16* from, Lanes lanes = {}) {
  return widen_bfloat16(load_half(&from->bits, lanes));
}

template <class Lanes = AllLanes>
HWY_INLINE void store(FloatVector value, bfloat16* to, Lanes lanes = {}) {
  store_half(round_bfloat16(value), &to->bits, lanes);
}

// The processor's own conversions (F16C, which every AVX2 machine has).
using Float16Tag = hn::Rebind<hwy::float16_t, FloatTag>;

template <class Lanes = AllLanes>
HWY_INLINE FloatVector load(const float16* from, Lanes lanes = {}) {
  return hn::PromoteTo(FloatTag(), hn::BitCast(Float16Tag(), load_half(&from->bits, lanes)));
}

template <class Lanes = AllLanes>
HWY_INLINE void store(FloatVector value, float16* to, Lanes lanes = {}) {
  store_half(hn::BitCast(HalfTag(), hn::DemoteTo(Float16Tag(), value)), &to->bits, lanes);
}

// Two vectors at a time, for functions of each element: which of the two has an element is nobody's business. `first` has
// those of even index of bfloat16, so that neither load nor store moves an element to another lane.
struct TwoVectors {};

template <class V>
struct Two {
  V first;
  V second;
};

HWY_INLINE Two<FloatVector> load(const float* from, TwoVectors) {
  return {load(from), load(from + float_lanes())};
}
HWY_INLINE void store(Two<FloatVector> values, float* to, TwoVectors) {
  store(values.first, to);
  store(values.second, to + float_lanes());
}

HWY_INLINE Two<FloatVector> load(const float16* from, TwoVectors) {
  return {load(from), load(from + float_lanes())};
}
HWY_INLINE void store(Two<FloatVector> values, float16* to, TwoVectors) {
  store(values.first, to);
  store(values.second, to + float_lanes());
}

HWY_INLINE Two<FloatVector> load(const bfloat16* from, TwoVectors) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, hn::LoadU(hn::Repartition<uint16_t, FloatTag>(), &from->bits));
  return {hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits)),
          hn::BitCast(FloatTag(), hn::And(bits, hn::Set(du, 0xffff0000U)))};
}
HWY_INLINE void store(Two<FloatVector> values, bfloat16* to, TwoVectors) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::Repartition<uint16_t, FloatTag> dh;
  const auto even = hn::ShiftRight<16>(rounded_bfloat16_bits(values.first));
  const auto odd = hn::And(rounded_bfloat16_bits(values.second), hn::Set(du, 0xffff0000U));
  hn::StoreU(hn::BitCast(dh, hn::Or(even, odd)), dh, &to->bits);
}

// function(values...) of one vector each, or of both of two.
template <class Function, class... V>
HWY_INLINE auto each(const Function& function, const V&... values) {
  return function(values...);
}
template <class Function, class... V>
HWY_INLINE auto each(const Function& function, const Two<V>&... values) {
  return Two<decltype(function(values.first...))>{function(values.first...), function(values.second...)};
}

// Replaces the unused lanes by those of `other`.
HWY_INLINE FloatVector keep_live(FloatVector value, AllLanes, FloatVector = hn::Zero(FloatTag())) {
  return value;
}
HWY_INLINE FloatVector keep_live(FloatVector value, FirstLanes lanes,
                                 FloatVector other = hn::Zero(FloatTag())) {
  return hn::IfThenElse(hn::FirstN(FloatTag(), static_cast<size_t>(lanes.count)), value, other);
}

// Calls body(column, lanes) for [begin, end), one vector at a time; the ragged end is last.
template <class Body>
HWY_INLINE void for_columns(int64_t begin, int64_t end, const Body& body) {
  const int64_t step = float_lanes();
  int64_t column = begin;
  for (; column + step <= end; column += step) body(column, AllLanes{});
  if (column < end) body(column, FirstLanes{end - column});
}

// for_columns(), two vectors at a time while there are two.
template <class Body>
HWY_INLINE void for_columns_in_pairs(int64_t begin, int64_t end, const Body& body) {
  const int64_t step = 2 * float_lanes();
  int64_t column = begin;
  for (; column + step <= end; column += step) body(column, TwoVectors{});
  for_columns(column, end, body);
}

// Folds body(accumulator, column, lanes) over [0, columns). Four chains hide the latency of additions; they
// are combined in a fixed order.
template <class Body>
HWY_INLINE FloatVector fold_columns(int64_t columns, const Body& body) {
  const int64_t step = float_lanes();
  FloatVector a = hn::Zero(FloatTag()), b = a, c = a, d = a;
  int64_t column = 0;
  for (; column + 4 * step <= columns; column += 4 * step) {
    a = body(a, column, AllLanes{});
    b = body(b, column + step, AllLanes{});
    c = body(c, column + 2 * step, AllLanes{});
    d = body(d, column + 3 * step, AllLanes{});
  }
  for_columns(column, columns, [&](int64_t i, auto lanes) { a = body(a, i, lanes); });
  return hn::Add(hn::Add(a, b), hn::Add(c, d));
}

HWY_INLINE float sum_lanes(FloatVector value) {
  return hn::GetLane(hn::SumOfLanes(FloatTag(), value));
}
HWY_INLINE float max_lanes(FloatVector value) {
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), value));
}

// ---- a float32 as a bfloat16 and a 16-bit rest; exec/cpu/elementwise/elementwise.h has the definition

struct SplitVector {
  HalfVector high;
  HalfVector rest;
};

HWY_INLINE SplitVector split_master(FloatVector value) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, value);
  const auto nearest = hn::Add(bits, hn::Set(du, 0x8000));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, nearest);
  return {hn::TruncateTo(HalfTag(), hn::ShiftRight<16>(kept)), hn::TruncateTo(HalfTag(), bits)};
}

HWY_INLINE FloatVector join_master(HalfVector high, HalfVector rest) {
  const hn::RebindToSigned<FloatTag> di;
  const hn::RebindToSigned<HalfTag> dh;
  const auto high_bits = hn::ShiftLeft<16>(hn::PromoteTo(di, high));
  return hn::BitCast(FloatTag(), hn::Add(high_bits, hn::PromoteTo(di, hn::BitCast(dh, rest))));
}

// A bfloat16 rounded stochastically with 16 random bits a lane: base/bfloat16.h.
HWY_INLINE HalfVector round_stochastically(FloatVector value, HalfVector random_bits) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, value);
  const auto carried = hn::Add(bits, hn::PromoteTo(du, random_bits));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, carried);
  return hn::TruncateTo(HalfTag(), hn::ShiftRight<16>(kept));
}

// ---- exponentials

// x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 2^21.
struct ReducedExponential {
  FloatVector remainder_minus_one;                 // e^r - 1
  FloatVector whole;                               // n
  hn::Vec<hn::RebindToSigned<FloatTag>> exponent;  // n
};

// 2^n, for n in [-126, 127].
HWY_INLINE FloatVector power_of_two(hn::Vec<hn::RebindToSigned<FloatTag>> n) {
  const hn::RebindToSigned<FloatTag> di;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

HWY_INLINE ReducedExponential reduce_exponential(FloatVector x) {
  const hn::RebindToSigned<FloatTag> di;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits of the mantissa.
  const FloatVector magic = set(12582912.0f);
  const FloatVector shifted = hn::MulAdd(x, set(1.44269504f), magic);
  const FloatVector n = hn::Sub(shifted, magic);
  const FloatVector r = hn::NegMulAdd(n, set(-2.12194440e-4f), hn::NegMulAdd(n, set(0.693359375f), x));
  // (e^r - 1 - r) / r^2
  // Coefficients in pairs: half the chain of dependent operations that one after the other would make.
  const FloatVector r2 = hn::Mul(r, r);
  const FloatVector c01 = hn::MulAdd(set(1.666666682e-1f), r, set(5.000000047e-1f));
  const FloatVector c23 = hn::MulAdd(set(8.333272831e-3f), r, set(4.166635354e-2f));
  const FloatVector c45 = hn::MulAdd(set(1.991430229e-4f), r, set(1.394110223e-3f));
  const FloatVector p = hn::MulAdd(hn::MulAdd(c45, r2, c23), r2, c01);
  const auto exponent = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
  return {hn::MulAdd(r2, p, r), n, exponent};
}

// e^r 2^n, for n from -150 to 128. Both ways round at the same places: to the last bit of e^r, and of a subnormal result.
HWY_INLINE FloatVector scaled(const ReducedExponential& e) {
#if HWY_TARGET <= HWY_AVX3
  return FloatVector{_mm512_scalef_ps(hn::Add(e.remainder_minus_one, set(1.0f)).raw, e.whole.raw)};
#else
  // The scale comes in two factors, so that no n overflows an exponent field.
  const auto half = hn::ShiftRight<1>(e.exponent);
  const FloatVector scale = power_of_two(half);
  const FloatVector partly = hn::MulAdd(e.remainder_minus_one, scale, scale);
  return hn::Mul(partly, power_of_two(hn::Sub(e.exponent, half)));
#endif
}

// e^x, with gradual underflow to 0 and overflow to infinity.
HWY_INLINE FloatVector exp(FloatVector x) {
  return scaled(reduce_exponential(hn::Min(set(89.0f), hn::Max(set(-104.0f), x))));
}

// e^x for x in [-87, 88], where the result is a normal number.
HWY_INLINE FloatVector exp_bounded(FloatVector x) {
  const auto e = reduce_exponential(x);
  const FloatVector scale = power_of_two(e.exponent);
  return hn::MulAdd(e.remainder_minus_one, scale, scale);
}

// e^x - 1 for x <= 88, relatively exact near 0.
HWY_INLINE FloatVector expm1(FloatVector x) {
  const auto e = reduce_exponential(hn::Max(set(-87.0f), x));
  const FloatVector scale = power_of_two(e.exponent);
  return hn::MulAdd(e.remainder_minus_one, scale, hn::Sub(scale, set(1.0f)));
}

HWY_INLINE FloatVector tanh(FloatVector x) {
  // Beyond 10 the result is 1 in float32.
  const FloatVector e = expm1(hn::Min(set(20.0f), hn::Abs(hn::Add(x, x))));
  return hn::CopySign(hn::Div(e, hn::Add(e, set(2.0f))), x);
}

// 1 / (1 + e^-x) and its derivative, from the decaying exponential: nothing overflows and neither tail
// cancels.
struct Logistic {
  FloatVector value;
  FloatVector slope;
};

HWY_INLINE Logistic logistic(FloatVector x) {
  const FloatVector one = set(1.0f);
  const FloatVector e = exp(hn::Neg(hn::Abs(x)));
  const FloatVector upper = hn::Div(one, hn::Add(one, e));
  const FloatVector lower = hn::Mul(e, upper);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), lower, upper), hn::Mul(lower, upper)};
}

HWY_INLINE FloatVector sigmoid(FloatVector x) {
  return logistic(x).value;
}

// ---- the error function and its relatives

// erfc(t) e^(t^2) for t in [0, 10.2], as a polynomial in u = 1 / (1 + 0.35 t).
HWY_INLINE FloatVector scaled_erfc(FloatVector t) {
  // One Newton step on the hardware's estimate costs a fifth of a division.
  const FloatVector denominator = hn::MulAdd(t, set(0.35f), set(1.0f));
  const FloatVector estimate = hn::ApproximateReciprocal(denominator);
  const FloatVector u = hn::MulAdd(hn::NegMulAdd(estimate, denominator, set(1.0f)), estimate, estimate);
  const FloatVector u2 = hn::Mul(u, u);
  const FloatVector u4 = hn::Mul(u2, u2);
  const FloatVector c01 = hn::MulAdd(set(1.971655094e-1f), u, set(1.974822919e-1f));
  const FloatVector c23 = hn::MulAdd(set(1.521292803e-1f), u, set(1.876893638e-1f));
  const FloatVector c45 = hn::MulAdd(set(9.165458945e-2f), u, set(1.434423589e-1f));
  const FloatVector c67 = hn::MulAdd(set(1.853351399e-1f), u, set(-3.306197830e-2f));
  const FloatVector c89 = hn::MulAdd(set(3.868597060e-2f), u, set(-1.605225186e-1f));
  const FloatVector low = hn::MulAdd(c23, u2, c01);
  const FloatVector high = hn::MulAdd(c89, u4, hn::MulAdd(c67, u2, c45));
  return hn::Mul(hn::MulAdd(high, u4, low), u);
}

HWY_INLINE FloatVector erf(FloatVector x) {
  const FloatVector square = hn::Mul(x, x);
  // erf(x) / x - 1 in x^2, for |x| <= 1
  FloatVector p = set(7.853869064e-5f);
  p = hn::MulAdd(p, square, set(-8.010196155e-4f));
  p = hn::MulAdd(p, square, set(5.188328005e-3f));
  p = hn::MulAdd(p, square, set(-2.685381213e-2f));
  p = hn::MulAdd(p, square, set(1.128358515e-1f));
  p = hn::MulAdd(p, square, set(-3.761262582e-1f));
  p = hn::MulAdd(p, square, set(1.283791657e-1f));
  const FloatVector inner = hn::MulAdd(p, x, x);
  const FloatVector t = hn::Min(set(5.0f), hn::Abs(x));
  const FloatVector tail = hn::Mul(exp_bounded(hn::Neg(hn::Mul(t, t))), scaled_erfc(t));
  const FloatVector outer = hn::CopySign(hn::Sub(set(1.0f), tail), x);
  return hn::IfThenElse(hn::Gt(hn::Abs(x), set(1.0f)), outer, inner);
}

// The normal distribution: P(N <= x), and its density times sqrt(2 pi), from one exponential. No cancellation
// in the left tail, which ends at -13.1: the last x whose density is a normal float.
struct Normal {
  FloatVector cumulative;
  FloatVector bell;
};

inline constexpr float kNormalEnd = 13.1f;

HWY_INLINE Normal normal(FloatVector x) {
  const FloatTag d;
  const FloatVector magnitude = hn::Abs(x);
  const FloatVector t = hn::Min(set(kNormalEnd), magnitude);
  const FloatVector bell = exp_bounded(hn::Mul(hn::Mul(t, t), set(-0.5f)));
  const FloatVector tail = hn::Mul(hn::Mul(bell, set(0.5f)), scaled_erfc(hn::Mul(t, set(0.707106781f))));
  const FloatVector ended = hn::IfThenElseZero(hn::Lt(magnitude, set(kNormalEnd)), tail);
  const FloatVector cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), ended, hn::Sub(set(1.0f), ended));
  return {cumulative, bell};
}

// ---- activations and their derivatives

// x P(N <= x): the exact form of Hendrycks and Gimpel, "Gaussian error linear units".
HWY_INLINE FloatVector gelu(FloatVector x) {
  return hn::Mul(x, normal(x).cumulative);
}

HWY_INLINE FloatVector gelu_derivative(FloatVector x) {
  const Normal n = normal(x);
  // Beyond the end the density is next to 0, and x may be infinite.
  const FloatVector bounded = hn::Max(set(-kNormalEnd), hn::Min(set(kNormalEnd), x));
  return hn::MulAdd(hn::Mul(bounded, set(0.398942280f)), n.bell, n.cumulative);
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), "gelu_new" in Hugging Face's configs, as x sigmoid(2 …).
HWY_INLINE FloatVector gelu_tanh(FloatVector x) {
  const FloatVector cubic = hn::MulAdd(hn::Mul(x, x), set(0.0713548163f), set(1.59576912f));
  return hn::Mul(x, sigmoid(hn::Mul(x, cubic)));
}

HWY_INLINE FloatVector gelu_tanh_derivative(FloatVector x) {
  // Constant beyond 10; the bound keeps 0 * infinity out.
  const FloatVector b = hn::Max(set(-12.0f), hn::Min(set(12.0f), x));
  const FloatVector square = hn::Mul(b, b);
  const Logistic s = logistic(hn::Mul(b, hn::MulAdd(square, set(0.0713548163f), set(1.59576912f))));
  const FloatVector inner_slope = hn::MulAdd(square, set(0.214064449f), set(1.59576912f));
  return hn::MulAdd(hn::Mul(b, inner_slope), s.slope, s.value);
}

HWY_INLINE FloatVector relu(FloatVector x) {
  return hn::Max(hn::Zero(FloatTag()), x);
}

HWY_INLINE FloatVector relu_derivative(FloatVector x) {
  const FloatVector one = hn::IfThenElseZero(hn::Gt(x, hn::Zero(FloatTag())), set(1.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, one);
}

// x sigmoid(x)
HWY_INLINE FloatVector silu(FloatVector x) {
  return hn::Mul(x, sigmoid(x));
}

HWY_INLINE FloatVector silu_derivative(FloatVector x) {
  const FloatVector bounded = hn::Max(set(-110.0f), hn::Min(set(110.0f), x));
  const Logistic s = logistic(bounded);
  return hn::MulAdd(bounded, s.slope, s.value);
}

HWY_INLINE FloatVector tanh_derivative(FloatVector x) {
  const FloatVector y = tanh(x);
  return hn::NegMulAdd(y, y, set(1.0f));
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // target
#endif  // per-target include guard
