// philox_simd-inl.h against the scalar definition in base/philox.h, on every target.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/philox.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/simd/philox_simd_test.cc"
#include "hwy/foreach_target.h"
// Highway's order: foreach_target.h before everything that includes highway.h.
#include "exec/cpu/simd/philox_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu {
namespace HWY_NAMESPACE {

// Bits by philox_keep_bits, and multipliers as a kernel makes them, one float an element.
void make_row(const PhiloxRow& row, uint32_t threshold, int64_t first_feature, int64_t count,
              uint8_t* keep_bits, float* multipliers) {
  philox_keep_bits(row, threshold, first_feature, count, keep_bits);
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::IfThenElseZero(philox_keep_mask(d, keep_bits, i), hn::Set(d, 2.0F)), d, multipliers + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace shoehorn::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(make_row);

bool scalar_keep(const PhiloxRow& row, uint32_t threshold, int64_t feature) {
  const std::array<uint32_t, 4> words =
      philox4x32_10(row.key, {static_cast<uint32_t>(feature / 8), row.position, row.sample, row.extra});
  const uint32_t bits = (words[(feature % 8) / 2] >> (16 * (feature % 2))) & 0xffffU;
  return bits >= threshold;
}

class PhiloxSimd : public test_support::EveryTarget {};

TEST_P(PhiloxSimd, EqualsScalarDefinition) {
  const PhiloxKey key = philox_key(0x123456789abcdef0U, 77, 5);
  for (const uint32_t threshold : {0U, 1U, 6554U, 32768U, 65535U, 65536U}) {
    for (const int64_t first : {int64_t{0}, int64_t{8}, int64_t{3}, int64_t{1023}, (int64_t{1} << 32) - 5}) {
      for (const int64_t count : {1, 7, 8, 9, 31, 64, 127, 130, 256, 257, 1000}) {
        const PhiloxRow row{key, static_cast<uint32_t>(11 * count), 0xfffffff0U,
                            static_cast<uint32_t>(count % 3)};
        std::vector<uint8_t> keep_bits(philox_keep_bytes(count) + 1, 0xa5);
        std::vector<float> multipliers(count + 16);
        HWY_DYNAMIC_DISPATCH(make_row)(row, threshold, first, count, keep_bits.data(), multipliers.data());
        EXPECT_EQ(keep_bits.back(), 0xa5) << "wrote beyond philox_keep_bytes";
        for (int64_t i = 0; i < count; ++i) {
          const bool keep = scalar_keep(row, threshold, first + i);
          ASSERT_EQ((keep_bits[i / 8] >> (i % 8)) & 1, keep ? 1 : 0) << threshold << " " << first << " " << i;
          ASSERT_EQ(multipliers[i], keep ? 2.0F : 0.0F);
        }
      }
    }
  }
}

TEST_P(PhiloxSimd, KeepsTheAskedShare) {
  const int64_t count = 1 << 16;
  std::vector<uint8_t> keep_bits(philox_keep_bytes(count));
  std::vector<float> multipliers(count + 16);
  HWY_DYNAMIC_DISPATCH(make_row)
  ({philox_key(1, 2, 3), 4, 5, 6}, drop_threshold(0.1F), 0, count, keep_bits.data(), multipliers.data());
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) kept += multipliers[i] != 0.0F ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(kept) / count, 0.9, 5 * 0.3 / 256);
}

INSTANTIATE_TEST_SUITE_P(Targets, PhiloxSimd, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
#endif
