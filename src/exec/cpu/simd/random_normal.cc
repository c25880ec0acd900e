#include "exec/cpu/simd/random_normal.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "exec/cpu/parallel.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/simd/random_normal.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 64 normal numbers from the 32 pairs of uniforms of block `block`.
void normal_block(PhiloxKey key, uint64_t block, float mean, float deviation, float* values) {
  constexpr int64_t kPairs = kNormalBlock / 2;
  HWY_ALIGN float radius[kPairs];
  HWY_ALIGN float angle[kPairs];
  for (uint32_t part = 0; part < kPairs / 2; ++part) {
    const auto words =
        philox4x32_10(key, {part, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0});
    // (word + 1/2) / 2^24 of the high 24 bits lies in (0, 1): the logarithm is finite.
    const auto uniform = [&](size_t i) { return (static_cast<float>(words[i] >> 8) + 0.5F) * 0x1p-24F; };
    radius[2 * part] = uniform(0);
    angle[2 * part] = uniform(1);
    radius[2 * part + 1] = uniform(2);
    angle[2 * part + 1] = uniform(3);
  }
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < kPairs; i += hn::Lanes(d)) {
    const auto r = hn::Mul(hn::Set(d, deviation),
                           hn::Sqrt(hn::Mul(hn::Set(d, -2.0F), hn::Log(d, hn::Load(d, radius + i)))));
    const auto phi = hn::Mul(hn::Set(d, 6.2831853F), hn::Load(d, angle + i));
    hn::StoreU(hn::MulAdd(r, hn::Cos(d, phi), hn::Set(d, mean)), d, values + i);
    hn::StoreU(hn::MulAdd(r, hn::Sin(d, phi), hn::Set(d, mean)), d, values + kPairs + i);
  }
}

void normal_range(const NormalFill& fill, int64_t begin, int64_t end) {
  const PhiloxKey key = philox_key(fill.seed, 0, fill.stream);
  for (int64_t at = begin; at < end; at += kNormalBlock) {
    const auto block = static_cast<uint64_t>((fill.first + at) / kNormalBlock);
    if (end - at >= kNormalBlock) {
      normal_block(key, block, fill.mean, fill.standard_deviation, fill.values.data() + at);
    } else {
      HWY_ALIGN float last[kNormalBlock];
      normal_block(key, block, fill.mean, fill.standard_deviation, last);
      std::copy_n(last, end - at, fill.values.data() + at);
    }
  }
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(normal_range);

void fill_normal(const NormalFill& arguments) {
  CHECK(arguments.first % kNormalBlock == 0, "a stream is drawn in blocks of {}", kNormalBlock);
  const auto range = HWY_DYNAMIC_DISPATCH(normal_range);
  parallel_ranges(static_cast<int64_t>(arguments.values.size()), kElementsPerChunk,
                  [&](int64_t begin, int64_t end) { range(arguments, begin, end); });
}

}  // namespace shoehorn::cpu
#endif
