// Against bitsandbytes (tests/golden/optimizer_8bit_make.py), byte for byte.
#include "exec/cpu/simd/dynamic_map.h"

#include <cmath>
#include <limits>

#include "exec/cpu/optimizers/eight_bit_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::floats_in;
using test_support::golden_8bit;
using test_support::golden_number;
using test_support::hex;

struct Kind {
  const char* name;
  const DynamicMap& map;
};
std::vector<Kind> kinds() {
  return {{"signed", signed_dynamic_map()}, {"unsigned", unsigned_dynamic_map()}};
}

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};
Quantized quantize(const DynamicMap& map, const std::vector<float>& values) {
  Quantized made{std::vector<uint8_t>(values.size()),
                 std::vector<float>((values.size() + kStateBlock - 1) / kStateBlock)};
  quantize_blocks(map, values.data(), static_cast<int64_t>(values.size()), made.codes.data(),
                  made.scales.data());
  return made;
}

TEST(DynamicMapKernel, HasTheNumbersOfBitsandbytes) {
  for (const Kind& kind : kinds()) {
    const std::vector<float> expected = floats_in(golden_8bit().at(kind.name).at("map"));
    ASSERT_EQ(expected.size(), kind.map.values.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(kind.map.values[i], expected[i]) << kind.name << i;
  }
}

class DynamicMapKernel : public test_support::EveryTarget {};

TEST_P(DynamicMapKernel, EveryCodeStandsForItsNumber) {
  for (const Kind& kind : kinds()) {
    // The second block ends in the middle of a vector.
    std::vector<uint8_t> codes(499);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    const std::vector<float> scales = {1.0F, 0.37F};
    std::vector<float> values(codes.size());
    dequantize_blocks(kind.map, codes.data(), scales.data(), static_cast<int64_t>(codes.size()),
                      values.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      const float expected = kind.map.values[codes[i]] * scales[i / kStateBlock];
      ASSERT_NEAR(values[i], expected, kNumberError * std::abs(expected)) << kind.name << " " << i;
    }
  }
}

// Of a block that has long had no gradient.
TEST_P(DynamicMapKernel, NumbersOfTheSmallestScalesKeepTheirSign) {
  for (const Kind& kind : kinds()) {
    std::vector<uint8_t> codes(256);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    for (float scale = 0x1p-90F; scale > 0; scale /= 3) {
      std::vector<float> values(codes.size());
      dequantize_blocks(kind.map, codes.data(), &scale, 256, values.data());
      for (size_t i = 0; i < values.size(); ++i) {
        // Two subnormal roundings, of which the slope's counts for each rank.
        const double tolerance = kNumberError * static_cast<double>(scale) + 1024 * 0x1p-149;
        const bool is_zero = !kind.map.is_signed && scale < kSmallestUnsignedScale;
        const double expected = is_zero ? 0.0 : static_cast<double>(kind.map.values[i] * scale);
        ASSERT_NEAR(values[i], expected, tolerance) << kind.name << i << " " << scale;
        ASSERT_TRUE(kind.map.is_signed || values[i] >= 0) << i << " " << scale;
      }
    }
  }
}

TEST_P(DynamicMapKernel, EveryPointOfTheGridHasTheNearestNumbersCode) {
  for (const Kind& kind : kinds()) {
    // A block begins with 1, so that its scale is 1; the other numbers are points.
    std::vector<float> values;
    std::vector<uint8_t> expected;
    size_t code = 0;
    for (int point = 0; point < kGridPoints; ++point) {
      if (values.size() % kStateBlock == 0) {
        values.push_back(1.0F);
        expected.push_back(255);
      }
      values.push_back(-1.0F + 2.0F * static_cast<float>(point) / static_cast<float>(kGridPoints - 1));
      while (code < 255 && 0.5F * (kind.map.values[code] + kind.map.values[code + 1]) < values.back()) ++code;
      expected.push_back(static_cast<uint8_t>(code));
    }
    EXPECT_EQ(quantize(kind.map, values).codes, expected) << kind.name;
  }
}

// Codes never fall as numbers rise, so where each begins says all of them: ties and the roundings around
// them.
TEST_P(DynamicMapKernel, EveryCodeBeginsWhereBitsandbytesBeginsIt) {
  for (const Kind& kind : kinds()) {
    const std::vector<float> begins = floats_in(golden_8bit().at(kind.name).at("thresholds"));
    for (size_t code = 1; code < 256; ++code) {
      const float begin = begins[code - 1];
      const std::vector<float> block = {1.0F, begin, std::nextafter(begin, -2.0F)};
      const Quantized made = quantize(kind.map, block);
      ASSERT_GE(made.codes[1], code) << kind.name;
      // All codes but 0 begin above -1.
      ASSERT_LT(made.codes[2], code) << kind.name;
    }
    // Between the beginnings nothing happens.
    for (int i = -4000; i <= 4000; ++i) {
      const float value = static_cast<float>(i) / 4000.0F;
      const auto code = std::upper_bound(begins.begin(), begins.end(), value) - begins.begin();
      ASSERT_EQ(quantize(kind.map, {1.0F, value}).codes[1], code) << kind.name << " " << value;
    }
  }
}

TEST_P(DynamicMapKernel, MomentsHaveTheCodesOfBitsandbytes) {
  for (const Kind& kind : kinds()) {
    const auto& golden = golden_8bit().at(kind.name);
    const std::string expected = golden.at("codes");
    const bool is_signed = std::string(kind.name) == "signed";
    std::vector<float> values(expected.size() / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      const int seed = is_signed ? 7 : 8;
      const auto at = static_cast<int64_t>(i);
      const double exponent = std::floor(54 * std::abs(static_cast<double>(golden_number(1, seed, at))));
      values[i] = std::ldexp(golden_number(0, seed, at), -static_cast<int>(exponent));
      if ((i >= 512 && i < 768) || i % 97 == 0) values[i] = 0;
      if (!is_signed) values[i] = std::abs(values[i]);
    }
    const Quantized made = quantize(kind.map, values);
    EXPECT_EQ(hex(made.codes), expected) << kind.name;
    EXPECT_EQ(made.scales, floats_in(golden.at("scales"))) << kind.name;

    std::vector<float> back(values.size());
    dequantize_blocks(kind.map, made.codes.data(), made.scales.data(), static_cast<int64_t>(back.size()),
                      back.data());
    for (size_t i = 0; i < back.size(); ++i) {
      const float scale = made.scales[i / kStateBlock];
      const float expected = kind.map.values[made.codes[i]] * scale;
      ASSERT_NEAR(back[i], expected, kNumberError * std::abs(expected));
      // Half the widest step of the map (0.9 / 64 of the scale) and one of the grid.
      ASSERT_NEAR(back[i], values[i], scale * (0.45F / 64 + 0x1p-15F));
    }
  }
}

TEST_P(DynamicMapKernel, WhatIsNoNumberTouchesNoOther) {
  std::vector<float> values(300, 0.25F);
  values[3] = NAN;
  values[280] = -std::numeric_limits<float>::infinity();
  const Quantized made = quantize(signed_dynamic_map(), values);
  EXPECT_EQ(made.scales[0], 0.25F);
  EXPECT_EQ(made.codes[4], 255);
  // 0.25 / infinity is 0; the infinity itself is none.
  EXPECT_EQ(made.scales[1], std::numeric_limits<float>::infinity());
  EXPECT_EQ(made.codes[281], quantize(signed_dynamic_map(), {0.0F, 1.0F}).codes[0]);
}

INSTANTIATE_TEST_SUITE_P(Targets, DynamicMapKernel, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
