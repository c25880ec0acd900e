// Float types, their conversions and the loss scale against PyTorch (tests/golden/precision_make.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bfloat16.h"
#include "base/float16.h"
#include "base/float_format.h"
#include "conformance_backend.h"
#include "exec/executor_testing.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "ops/op_builder.h"

namespace shoehorn {
namespace {

using nlohmann::json;

const json& precision_golden() {
  static const json file = read_json(golden("precision.json"));
  return file;
}

TEST(FloatFormats, AreThoseOfFinfo) {
  int64_t compared = 0;
  for (const FloatFormat& format : float_formats()) {
    SCOPED_TRACE(format.name);
    EXPECT_EQ(1 + format.exponent_bits + format.mantissa_bits, format.bits);
    const auto found = precision_golden()["finfo"].find(format.name);
    if (found == precision_golden()["finfo"].end()) continue;  // PyTorch has no type for tfloat32
    ++compared;
    const json& info = *found;
    EXPECT_EQ(format.bits, info["bits"]);
    EXPECT_EQ(format.max(), info["max"]);
    EXPECT_EQ(format.min_normal(), info["min_normal"]);
    EXPECT_EQ(format.epsilon(), info["epsilon"]);
    EXPECT_DOUBLE_EQ(format.resolution(), info["resolution"].get<double>());
    for (size_t i = 0; i < precision_golden()["shares"].size(); ++i) {
      const auto share = precision_golden()["shares"][i].get<double>();
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
  const json& list = precision_golden()["conversions"];
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

// A program of the loss scale's ops alone, on the backend that is tested.
class LossScaleProgram {
 public:
  LossScaleProgram(const LossScaleAttributes& attributes, float scale, int32_t overflows_to_go = 1) {
    for (const auto& [name, dtype] :
         {std::pair{"squares", DType::kF64}, std::pair{"scale", DType::kF32},
          std::pair{"applied_in_row", DType::kI32}, std::pair{"overflows_to_go", DType::kI32}})
      state_.push_back(table_.add_storage({name, {dtype, {1}}, Role::kScalar, {}, {}}));
    Program& program = programs_.emplace_back(ProgramKind::kUpdate, &table_);
    OpBuilder builder(program);
    const auto read = [&](size_t i) { return program.read_state(state_[i]); };
    found_inf_ = builder.value(OpKind::kFoundInf, {read(0)}, {}, "found_inf");
    program.add_result("found_inf", found_inf_);
    builder.add(OpKind::kLossScaleUpdate, {read(1), read(2), read(3), found_inf_}, attributes, "update");
    plan_ = plan_memory(table_, programs_, *backend_);
    executor_.emplace(table_, programs_, plan_, *backend_);
    executor_->write_scalar(state_[1], scale);
    executor_->write_scalar(state_[2], 0);
    executor_->write_scalar(state_[3], overflows_to_go);
  }

  // After a step whose gradients had this sum of squares; whether it was skipped.
  int32_t step(double sum_of_squares) {
    executor_->write_scalar(state_[0], sum_of_squares);
    executor_->run(ProgramId{0}, {});
    return executor_->read_scalar<int32_t>(ProgramId{0}, found_inf_);
  }
  float scale() const { return executor_->read_scalar<float>(state_[1]); }
  int32_t applied_in_row() const { return executor_->read_scalar<int32_t>(state_[2]); }

 private:
  StateTable table_;
  std::vector<StorageId> state_;
  std::vector<Program> programs_;
  ValueId found_inf_;
  const std::shared_ptr<const Backend> backend_ = test_support::conformance_backend(1);
  MemoryPlan plan_;
  std::optional<Executor> executor_;
};

TEST(LossScale, MovesAsGradScaler) {
  for (const json& scaler : precision_golden()["scalers"]) {
    LossScaleProgram program(
        {.growth_interval = scaler["growth_interval"].get<int32_t>(), .minimum = 0x1p-149F},
        scaler["initial"].get<float>());
    for (size_t i = 0; i < scaler["overflows"].size(); ++i) {
      program.step(scaler["overflows"][i].get<int32_t>() != 0 ? INFINITY : 1);
      ASSERT_EQ(program.scale(), scaler["scales"][i].get<float>()) << "step " << i;
      ASSERT_EQ(program.applied_in_row(), scaler["trackers"][i].get<int32_t>()) << "step " << i;
    }
  }
}

// DeepSpeed's hysteresis: the h-th overflow since the scale grew halves it, and so does each one after that.
TEST(LossScale, HysteresisAndMinimum) {
  LossScaleProgram program({.growth_interval = 3, .hysteresis = 2, .minimum = 16}, 64, 2);
  const auto step = [&](int32_t overflow) {
    program.step(overflow != 0 ? INFINITY : 1);
    return program.scale();
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
  LossScaleProgram program({}, 64);
  for (const auto& [squares, expected] :
       {std::pair{0.0, 0}, std::pair{1e300, 0}, std::pair<double, int>{INFINITY, 1},
        std::pair<double, int>{NAN, 1}})
    EXPECT_EQ(program.step(squares), expected) << squares;
}

}  // namespace
}  // namespace shoehorn
