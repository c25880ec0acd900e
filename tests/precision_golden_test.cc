// Float types, their conversions and the loss scale against PyTorch (tests/golden/precision_make.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bfloat16.h"
#include "base/float16.h"
#include "base/float_format.h"
#include "exec/cpu/optimizers/loss_scale.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using nlohmann::json;

const json& golden() {
  static const json file =
      read_json(std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/precision.json");
  return file;
}

TEST(FloatFormats, AreThoseOfFinfo) {
  int64_t compared = 0;
  for (const FloatFormat& format : float_formats()) {
    SCOPED_TRACE(format.name);
    EXPECT_EQ(1 + format.exponent_bits + format.mantissa_bits, format.bits);
    const auto found = golden()["finfo"].find(format.name);
    if (found == golden()["finfo"].end()) continue;  // PyTorch has no type for tfloat32
    ++compared;
    const json& info = *found;
    EXPECT_EQ(format.bits, info["bits"]);
    EXPECT_EQ(format.max(), info["max"]);
    EXPECT_EQ(format.min_normal(), info["min_normal"]);
    EXPECT_EQ(format.epsilon(), info["epsilon"]);
    EXPECT_DOUBLE_EQ(format.resolution(), info["resolution"].get<double>());
    for (size_t i = 0; i < golden()["shares"].size(); ++i) {
      const auto share = golden()["shares"][i].get<double>();
      EXPECT_EQ(round_to_format(share, format), std::stod(info["rounded"][i].get<std::string>())) << share;
    }
  }
  EXPECT_EQ(compared, 6);
}

TEST(FloatFormats, Tf32IsFloat32WithTheMantissaOfFloat16) {
  const FloatFormat& tf32 = float_formats()[2];
  ASSERT_EQ(tf32.name, "tfloat32");
  EXPECT_EQ(tf32.bits, 19);
  EXPECT_EQ(tf32.epsilon(), 0x1p-10);
  EXPECT_EQ(tf32.min_normal(), 0x1p-126);
  EXPECT_EQ(tf32.max(), (2 - 0x1p-10) * 0x1p127);
  EXPECT_EQ(round_to_format(1.0 / 3, tf32), 0.333251953125) << "float16's, whose exponent it has too";
  EXPECT_EQ(round_to_format(1e6, tf32), 999936);
}

TEST(Conversions, AreThoseOfPyTorch) {
  const json& list = golden()["conversions"];
  ASSERT_GT(list["float32"].size(), 500U);
  for (size_t i = 0; i < list["float32"].size(); ++i) {
    const float value = std::bit_cast<float>(list["float32"][i].get<uint32_t>());
    EXPECT_EQ(to_float16(value).bits, list["float16"][i].get<uint16_t>()) << value;
    EXPECT_EQ(to_bfloat16(value).bits, list["bfloat16"][i].get<uint16_t>()) << value;
  }
}

// The scalar conversion against the general rounding, which knows nothing of bits, around every boundary.
TEST(Conversions, Float16IsTheNearest) {
  const auto formats = float_formats();
  const auto half = std::find_if(formats.begin(), formats.end(), [](auto& f) { return f.name == "float16"; });
  for (uint32_t bits = 0; bits < 0x7c00U; ++bits) {
    const float value = to_float(float16{static_cast<uint16_t>(bits)});
    EXPECT_EQ(round_to_format(value, *half), value);
    const float middle = value + static_cast<float>(half->min_subnormal()) / 2 *
                                     std::max(1.0F, std::exp2(std::floor(std::log2(value * 0x1p14F))));
    for (const float x : {value, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) {
      ASSERT_EQ(static_cast<double>(to_float(to_float16(x))), round_to_format(x, *half)) << x;
      ASSERT_EQ(to_float16(-x).bits, to_float16(x).bits | 0x8000U) << x;
    }
  }
  EXPECT_TRUE(std::isnan(to_float(to_float16(NAN))));
  EXPECT_EQ(to_float(to_float16(1e6F)), INFINITY);
}

TEST(LossScale, MovesAsGradScaler) {
  for (const json& scaler : golden()["scalers"]) {
    auto scale = scaler["initial"].get<float>();
    int32_t applied_in_row = 0;
    int32_t overflows_to_go = 1;
    const LossScaleAttributes attributes{.growth_interval = scaler["growth_interval"].get<int32_t>(),
                                         .minimum = 0x1p-149F};
    for (size_t i = 0; i < scaler["overflows"].size(); ++i) {
      const auto overflow = scaler["overflows"][i].get<int32_t>();
      cpu::loss_scale_update(attributes, &overflow, {&scale, &applied_in_row, &overflows_to_go});
      ASSERT_EQ(scale, scaler["scales"][i].get<float>()) << "step " << i;
      ASSERT_EQ(applied_in_row, scaler["trackers"][i].get<int32_t>()) << "step " << i;
    }
  }
}

// DeepSpeed's hysteresis: the h-th overflow since the scale grew halves it, and so does each one after that.
TEST(LossScale, HysteresisAndMinimum) {
  const LossScaleAttributes attributes{.growth_interval = 3, .hysteresis = 2, .minimum = 16};
  float scale = 64;
  int32_t applied_in_row = 0;
  int32_t overflows_to_go = 2;
  const auto step = [&](int32_t overflow) {
    cpu::loss_scale_update(attributes, &overflow, {&scale, &applied_in_row, &overflows_to_go});
    return scale;
  };
  EXPECT_EQ(step(1), 64) << "the first is let pass";
  EXPECT_EQ(step(0), 64);
  EXPECT_EQ(step(0), 64);
  EXPECT_EQ(step(1), 32);
  EXPECT_EQ(step(1), 16);
  EXPECT_EQ(step(1), 16) << "the minimum";
  step(0);
  step(0);
  EXPECT_EQ(step(0), 32) << "three applied steps in a row";
  EXPECT_EQ(step(1), 32) << "let pass again";
  EXPECT_EQ(step(1), 16);
}

TEST(LossScale, FoundInfIsOfInfinityAndNan) {
  for (const auto& [squares, expected] :
       {std::pair{0.0, 0}, std::pair{1e300, 0}, std::pair<double, int>{INFINITY, 1},
        std::pair<double, int>{NAN, 1}}) {
    int32_t found = 7;
    cpu::found_inf(&squares, &found);
    EXPECT_EQ(found, expected) << squares;
  }
}

}  // namespace
}  // namespace shoehorn
