// Dropout masks of a row, vectorised: bit for bit the masks that base/philox.h defines (Philox4x32-10, 16
// random bits per element, eight neighbouring features per block).
//
// A vector of 64-bit lanes holds one counter word of as many blocks as it has lanes. The widening multiply
// reads only the low half of a lane, so the high halves may hold rubbish and a round is two multiplies, two
// shifts and two xors.
//
// A mask is a string of bits in memory: bit i (bit i % 8 of byte i / 8) is 1 if element first_feature + i is
// kept:
//
//   alignas(8) uint8_t keep[philox_keep_bytes(kMaxColumns)];  // scratch of the caller, reused
//   const uint32_t threshold = drop_threshold(p);
//   philox_keep_bits({key, position, sample, extra}, threshold, first_feature, n, keep);  // a row
//   for (i = 0; i < n; i += Lanes(df))
//     y = IfThenElseZero(philox_keep_mask(df, keep, i), Mul(x, scale));
//
// Random bits that round weights come from the same blocks: philox_half_words.
//
// Include it, like Highway's -inl.h files, after simd_targets.h and foreach_target.h. Everything is in
// shoehorn::cpu::HWY_NAMESPACE. Nothing allocates or throws.
#include "base/philox.h"
#include "hwy/highway.h"

// The part that does not depend on the target.
#ifndef SHOEHORN_EXEC_CPU_PHILOX_SIMD_COMMON_
#define SHOEHORN_EXEC_CPU_PHILOX_SIMD_COMMON_

namespace shoehorn::cpu {

// The key and the three counter words that all elements of a row share.
struct PhiloxRow {
  PhiloxKey key;
  uint32_t position;
  uint32_t sample;
  uint32_t extra;
};

// The largest number of elements in the blocks of `count` elements from any first element on: whole vector
// groups.
constexpr int64_t philox_elements(int64_t count) {
  return (count + 7 + 255) / 256 * 256;
}

// Size of the buffer for the mask of `count` elements, plus the 8 bytes that mask loads may overread.
constexpr int64_t philox_keep_bytes(int64_t count) {
  return philox_elements(count) / 8 + 8;
}

}  // namespace shoehorn::cpu

#endif  // SHOEHORN_EXEC_CPU_PHILOX_SIMD_COMMON_

// Per-target include guard.
#if defined(SHOEHORN_EXEC_CPU_PHILOX_SIMD_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_PHILOX_SIMD_INL_
#undef SHOEHORN_EXEC_CPU_PHILOX_SIMD_INL_
#else
#define SHOEHORN_EXEC_CPU_PHILOX_SIMD_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PhiloxTag = hn::ScalableTag<uint64_t>;
using PhiloxVector = hn::Vec<PhiloxTag>;

// Vectors of blocks in flight: a round's chain of three instructions is longer than its throughput.
inline constexpr int kPhiloxGroups = 4;

// counter[g][w]: word w of the blocks of group g, in the low halves of the lanes.
HWY_INLINE void philox_rounds(PhiloxKey key, PhiloxVector (&counter)[kPhiloxGroups][4]) {
  const PhiloxTag d;
  const hn::Repartition<uint32_t, PhiloxTag> d32;
  const auto multiplier0 = hn::Set(d32, 0xD2511F53U);
  const auto multiplier1 = hn::Set(d32, 0xCD9E8D57U);
  for (int round = 0; round < 10; ++round) {
    const PhiloxVector k0 = hn::Set(d, uint64_t{key.k0});
    const PhiloxVector k1 = hn::Set(d, uint64_t{key.k1});
#pragma GCC unroll 4
    for (int g = 0; g < kPhiloxGroups; ++g) {
      const PhiloxVector product0 = hn::MulEven(hn::BitCast(d32, counter[g][0]), multiplier0);
      const PhiloxVector product1 = hn::MulEven(hn::BitCast(d32, counter[g][2]), multiplier1);
      counter[g][0] = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(counter[g][1], k0));
      counter[g][1] = product1;
      counter[g][2] = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(counter[g][3], k1));
      counter[g][3] = product0;
    }
    key.k0 += 0x9E3779B9U;
    key.k1 += 0xBB67AE85U;
  }
}

// a >= b for unsigned half-words; AVX2 has only a signed comparison.
template <class V>
HWY_INLINE auto philox_at_least(V a, V b) {
  return hn::Eq(hn::Max(a, b), a);
}

// Calls use(i, half_words) with the random bits, 16 per element, of whole blocks from `first_block` on, one
// vector at a time; element i is the vector's first. Covers at least `count` elements, rounded up to a whole
// number of groups.
template <class Use>
HWY_INLINE void philox_half_words(const PhiloxRow& row, uint32_t first_block, int64_t count, const Use& use) {
  const PhiloxTag d;
  const hn::Repartition<uint32_t, PhiloxTag> d32;
  const hn::Repartition<uint16_t, PhiloxTag> d16;
  constexpr int64_t kBlocks = static_cast<int64_t>(hn::MaxLanes(PhiloxTag()));
  constexpr int64_t kElements = 8 * kBlocks;
  // Interleaving pairs the words of even lanes into the first vector of results and of odd lanes into the
  // second, so even lanes work on the first half of the blocks and odd lanes on the other.
  const PhiloxVector lane = hn::Iota(d, 0);
  const PhiloxVector block_of_lane = hn::Add(
      hn::ShiftRight<1>(lane), hn::IfThenElseZero(hn::TestBit(lane, hn::Set(d, 1)), hn::Set(d, kBlocks / 2)));

  for (int64_t i = 0; i < count; i += kPhiloxGroups * kElements) {
    PhiloxVector counter[kPhiloxGroups][4];
#pragma GCC unroll 4
    for (int g = 0; g < kPhiloxGroups; ++g) {
      const uint64_t block = first_block + static_cast<uint64_t>(i / 8 + g * kBlocks);
      counter[g][0] = hn::Add(block_of_lane, hn::Set(d, block));
      counter[g][1] = hn::Set(d, uint64_t{row.position});
      counter[g][2] = hn::Set(d, uint64_t{row.sample});
      counter[g][3] = hn::Set(d, uint64_t{row.extra});
    }
    philox_rounds(row.key, counter);
#pragma GCC unroll 4
    for (int g = 0; g < kPhiloxGroups; ++g) {
      const auto words01 =
          hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(counter[g][1])), hn::BitCast(d32, counter[g][0]));
      const auto words23 =
          hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(counter[g][3])), hn::BitCast(d32, counter[g][2]));
      const auto first = hn::InterleaveLower(d, hn::BitCast(d, words01), hn::BitCast(d, words23));
      const auto second = hn::InterleaveUpper(d, hn::BitCast(d, words01), hn::BitCast(d, words23));
      use(i + g * kElements, hn::BitCast(d16, first));
      use(i + g * kElements + kElements / 2, hn::BitCast(d16, second));
    }
  }
}

// Keep bits of the elements of whole blocks: writes at least (count + 7) / 8 bytes. threshold < 65536.
HWY_INLINE void philox_keep_blocks(const PhiloxRow& row, uint32_t threshold, uint32_t first_block,
                                   int64_t count, uint8_t* HWY_RESTRICT keep_bits) {
  const hn::Repartition<uint16_t, PhiloxTag> d16;
  const auto smallest_kept = hn::Set(d16, static_cast<uint16_t>(threshold));
  philox_half_words(row, first_block, count, [&](int64_t i, auto half_words) {
    hn::StoreMaskBits(d16, philox_at_least(half_words, smallest_kept), keep_bits + i / 8);
  });
}

// keep_bits [philox_keep_bytes(count)]: the mask of features [first_feature, first_feature + count) of a row.
// Any first feature; a multiple of 8 saves a shift of the string.
HWY_INLINE void philox_keep_bits(const PhiloxRow& row, uint32_t threshold, int64_t first_feature,
                                 int64_t count, uint8_t* HWY_RESTRICT keep_bits) {
  const int64_t bytes = (count + 7) / 8;
  if (threshold > 65535) {
    for (int64_t i = 0; i < bytes; ++i) keep_bits[i] = 0;
    return;
  }
  const int shift = static_cast<int>(first_feature % 8);
  philox_keep_blocks(row, threshold, static_cast<uint32_t>(first_feature / 8), count + shift, keep_bits);
  if (shift == 0) return;
  for (int64_t i = 0; i < bytes; ++i) {
    keep_bits[i] = static_cast<uint8_t>((keep_bits[i] >> shift) | (keep_bits[i + 1] << (8 - shift)));
  }
}

// The mask of elements [i, i + Lanes(d)) of the row; i and Lanes(d) are multiples of 8. 32-bit lanes, AVX2: 8
// elements.
template <class D>
HWY_INLINE hn::Mask<D> philox_keep_mask(D d, const uint8_t* keep_bits, int64_t i) {
  return hn::LoadMaskBits(d, keep_bits + i / 8);
}

}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
