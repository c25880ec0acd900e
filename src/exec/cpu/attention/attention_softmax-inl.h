// Inside attention: the processing of a row of scores, forward and backward. Scores times score_scale are in units
// of log 2, so that powers of two replace exponentials. Included after
// foreach_target.h; everything is in shoehorn::cpu::HWY_NAMESPACE::attention.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/attention_mask.h"
#include "exec/cpu/attention/attention_block-inl.h"
#include "exec/cpu/simd/philox_simd-inl.h"
#include "hwy/highway.h"

#if defined(SHOEHORN_EXEC_CPU_ATTENTION_SOFTMAX_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_ATTENTION_SOFTMAX_INL_
#undef SHOEHORN_EXEC_CPU_ATTENTION_SOFTMAX_INL_
#else
#define SHOEHORN_EXEC_CPU_ATTENTION_SOFTMAX_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {
namespace attention {

// 2^x within 1 ulp for x < 127; below -126.5 it is 0, so that no denormal slows the sums. NaN stays NaN.
HWY_INLINE FloatVector power_of_two(FloatVector x) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  // Adding 1.5 · 2^23 rounds to an integer in the low bits of the sum; with 127 added they are the biased
  // exponent.
  const FloatVector magic = hn::Set(d, 12582912.0F + 127.0F);
  x = hn::Max(hn::Set(d, -127.0F), x);  // in this order: x86 returns the second operand where one is NaN
  const FloatVector rounded = hn::Add(x, magic);
  const FloatVector fraction = hn::Sub(x, hn::Sub(rounded, magic));
  const FloatVector power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, rounded)));
  // Minimax fit of 2^f on [-0.5, 0.5], relative error 2e-9 before rounding.
  FloatVector y = hn::Set(d, 0.00015353362F);
  y = hn::MulAdd(y, fraction, hn::Set(d, 0.0013398875F));
  y = hn::MulAdd(y, fraction, hn::Set(d, 0.00961843692F));
  y = hn::MulAdd(y, fraction, hn::Set(d, 0.0555033237F));
  y = hn::MulAdd(y, fraction, hn::Set(d, 0.240226477F));
  y = hn::MulAdd(y, fraction, hn::Set(d, 0.693147182F));
  y = hn::MulAdd(y, fraction, hn::Set(d, 1.0F));
  return hn::Mul(y, power);
}

// The greatest of x[0, count); independent chains because a row is short and the maximum's latency is not.
HWY_INLINE float row_maximum(const float* HWY_RESTRICT x, int64_t count) {
  const FloatTag d;
  const FloatVector lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVector best0 = lowest;
  FloatVector best1 = lowest;
  FloatVector best2 = lowest;
  FloatVector best3 = lowest;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    best0 = hn::Max(best0, hn::LoadU(d, x + i));
    best1 = hn::Max(best1, hn::LoadU(d, x + i + kLanes));
    best2 = hn::Max(best2, hn::LoadU(d, x + i + 2 * kLanes));
    best3 = hn::Max(best3, hn::LoadU(d, x + i + 3 * kLanes));
  }
  for (; i < count; i += kLanes) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(count - i));
    best0 = hn::Max(best0, hn::IfThenElse(inside, hn::LoadU(d, x + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(best0, best1), hn::Max(best2, best3))));
}

// x[i] = 2^(score_scale · x[i] - maximum), zero where dropped; returns the sum of all, dropped or not. x has room for whole
// vectors.
template <bool kDropout>
HWY_INLINE float exponentiate_row(float* HWY_RESTRICT x, int64_t count, float score_scale, float maximum,
                                  const uint8_t* keep_bits) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, score_scale);
  const FloatVector top = hn::Set(d, maximum);
  FloatVector sum0 = hn::Zero(d);
  FloatVector sum1 = hn::Zero(d);
  const auto keep = [&](FloatVector y, int64_t i) HWY_ATTR {
    if constexpr (kDropout) return hn::IfThenElseZero(philox_keep_mask(d, keep_bits, i), y);
    return y;
  };
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const FloatVector y0 = power_of_two(hn::MulSub(hn::LoadU(d, x + i), scale, top));
    const FloatVector y1 = power_of_two(hn::MulSub(hn::LoadU(d, x + i + kLanes), scale, top));
    sum0 = hn::Add(sum0, y0);
    sum1 = hn::Add(sum1, y1);
    hn::StoreU(keep(y0, i), d, x + i);
    hn::StoreU(keep(y1, i + kLanes), d, x + i + kLanes);
  }
  for (; i < count; i += kLanes) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(count - i));
    const FloatVector y =
        hn::IfThenElseZero(inside, power_of_two(hn::MulSub(hn::LoadU(d, x + i), scale, top)));
    sum0 = hn::Add(sum0, y);
    hn::StoreU(keep(y, i), d, x + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

HWY_INLINE float power_of_two_scalar(float x) {
  return hn::GetLane(power_of_two(hn::Set(FloatTag(), x)));
}

// One step of the online softmax over x[0, count), of which those in `visible` are not masked. score_scale > 0, and scaled scores below 2^30, so that what rounding leaves of the greatest is small. On return x
// holds unnormalised probabilities relative to the new `maximum`, with zeros for dropped and masked ones, and
// `sum` includes them. Returns the factor by which earlier sums of this row must be multiplied.
template <bool kDropout>
HWY_INLINE float softmax_row(float* HWY_RESTRICT x, int64_t count, RowRange visible, const uint8_t* keep_bits,
                             float score_scale, float& maximum, float& sum) {
  if (visible.empty()) {
    std::fill(x, x + count, 0.0F);
    return 1.0F;
  }
  // Dropout masks are read in whole vectors. The masked part of the first vector adds nothing to the sum.
  const int64_t begin = visible.begin / kLanes * kLanes;
  std::fill(x + begin, x + visible.begin, -std::numeric_limits<float>::infinity());
  const int64_t shown = visible.end - begin;
  const float previous = maximum;
  maximum = std::max(previous, score_scale * row_maximum(x + begin, shown));
  const float rescale = power_of_two_scalar(previous - maximum);
  sum = sum * rescale +
        exponentiate_row<kDropout>(x + begin, shown, score_scale, maximum, keep_bits + begin / 8);
  std::fill(x, x + begin, 0.0F);
  std::fill(x + visible.end, x + count, 0.0F);
  return rescale;
}

// The backward of a row. score[0, count) becomes the probabilities, with zeros for dropped ones; gradient[0,
// count) times gradient_scale is the gradient of the dropped probabilities (times the keep scale) and becomes that of
// the scores. Both are zero outside of `visible`. logsumexp is in units of log 2.
template <bool kDropout>
HWY_INLINE void gradient_row(float* HWY_RESTRICT score, float* HWY_RESTRICT gradient, int64_t count,
                             RowRange visible, const uint8_t* keep_bits, float score_scale,
                             float gradient_scale, float logsumexp, float delta) {
  const FloatTag d;
  const FloatVector of_score = hn::Set(d, score_scale);
  const FloatVector of_gradient = hn::Set(d, gradient_scale);
  if (visible.empty()) visible = {0, 0};
  const FloatVector normaliser = hn::Set(d, logsumexp);
  const FloatVector shift = hn::Set(d, delta);
  const auto step = [&](int64_t i, auto inside) HWY_ATTR {
    FloatVector p = power_of_two(hn::MulSub(hn::LoadU(d, score + i), of_score, normaliser));
    p = inside(p);
    FloatVector dp = hn::LoadU(d, gradient + i);
    FloatVector dropped = p;
    if constexpr (kDropout) {
      const auto keep = philox_keep_mask(d, keep_bits, i);
      dp = hn::IfThenElseZero(keep, dp);
      dropped = hn::IfThenElseZero(keep, p);
    }
    hn::StoreU(dropped, d, score + i);
    hn::StoreU(hn::Mul(p, hn::MulSub(dp, of_gradient, shift)), d, gradient + i);
  };
  int64_t i = visible.begin / kLanes * kLanes;
  for (; i + kLanes <= visible.end; i += kLanes) step(i, [](FloatVector p) HWY_ATTR { return p; });
  if (i < visible.end) {
    const auto first = hn::FirstN(d, static_cast<size_t>(visible.end - i));
    step(i, [&](FloatVector p) HWY_ATTR { return hn::IfThenElseZero(first, p); });
  }
  for (float* row : {score, gradient}) {
    std::fill(row, row + visible.begin, 0.0F);
    std::fill(row + visible.end, row + count, 0.0F);
  }
}

// x[0, count) += factor · y.
HWY_INLINE void add_scaled_row(const float* HWY_RESTRICT y, int64_t count, float factor,
                               float* HWY_RESTRICT x) {
  for (int64_t i = 0; i < count; ++i) x[i] += factor * y[i];
}

// x[0, count) *= factor; x has room for whole vectors.
HWY_INLINE void scale_row(float* HWY_RESTRICT x, int64_t count, float factor) {
  const FloatTag d;
  for (int64_t i = 0; i < count; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
}

// Sum of x[i] · y[i] over whole vectors (both padded with zeros).
HWY_INLINE float dot_row(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, int64_t padded) {
  const FloatTag d;
  FloatVector sum = hn::Zero(d);
  for (int64_t i = 0; i < padded; i += kLanes)
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The same with bf16 numbers, in pairs of neighbours.
HWY_INLINE float dot_row(const float* HWY_RESTRICT x, const Bf16Pair* HWY_RESTRICT y, int64_t padded) {
  const FloatTag d;
  const hn::Rebind<hwy::bfloat16_t, FloatTag> narrow;
  const auto* numbers = reinterpret_cast<const hwy::bfloat16_t*>(y);
  FloatVector sum = hn::Zero(d);
  for (int64_t i = 0; i < padded; i += kLanes)
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::PromoteTo(d, hn::LoadU(narrow, numbers + i)), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
