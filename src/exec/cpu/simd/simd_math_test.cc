// Elementary functions and conversions against double precision, on every target.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bfloat16.h"
#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/kernel_testing.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/simd/simd_math_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

#ifndef SHOEHORN_EXEC_CPU_SIMD_MATH_TEST_COMMON_
#define SHOEHORN_EXEC_CPU_SIMD_MATH_TEST_COMMON_
namespace shoehorn::cpu {
enum class Function {
  kExp,
  kExpm1,
  kErf,
  kTanh,
  kSigmoid,
  kGelu,
  kGeluDerivative,
  kGeluTanh,
  kGeluTanhDerivative,
  kRelu,
  kReluDerivative,
  kSilu,
  kSiluDerivative,
  kTanhDerivative,
};
}  // namespace shoehorn::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

FloatVector evaluate(Function function, FloatVector x) {
  switch (function) {
    case Function::kExp:
      return exp(x);
    case Function::kExpm1:
      return expm1(x);
    case Function::kErf:
      return erf(x);
    case Function::kTanh:
      return tanh(x);
    case Function::kSigmoid:
      return sigmoid(x);
    case Function::kGelu:
      return gelu(x);
    case Function::kGeluDerivative:
      return gelu_derivative(x);
    case Function::kGeluTanh:
      return gelu_tanh(x);
    case Function::kGeluTanhDerivative:
      return gelu_tanh_derivative(x);
    case Function::kRelu:
      return relu(x);
    case Function::kReluDerivative:
      return relu_derivative(x);
    case Function::kSilu:
      return silu(x);
    case Function::kSiluDerivative:
      return silu_derivative(x);
    case Function::kTanhDerivative:
      return tanh_derivative(x);
  }
  return x;
}

void evaluate_all(Function function, const float* x, int64_t count, float* y) {
  for_columns(0, count,
              [&](int64_t i, auto lanes) { store(evaluate(function, load(x + i, lanes)), y + i, lanes); });
}

void to_bfloat16_all(const float* x, int64_t count, bfloat16* y) {
  for_columns(0, count, [&](int64_t i, auto lanes) { store(load(x + i, lanes), y + i, lanes); });
}

void from_bfloat16_all(const bfloat16* x, int64_t count, float* y) {
  for_columns(0, count, [&](int64_t i, auto lanes) { store(load(x + i, lanes), y + i, lanes); });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(evaluate_all);
HWY_EXPORT(to_bfloat16_all);
HWY_EXPORT(from_bfloat16_all);

constexpr double kInverseSqrt2Pi = 0.39894228040143267794;

double cumulative(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double gelu_tanh_argument(double x) {
  return 2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
}

double reference(Function function, double x) {
  switch (function) {
    case Function::kExp:
      return std::exp(x);
    case Function::kExpm1:
      return std::expm1(x);
    case Function::kErf:
      return std::erf(x);
    case Function::kTanh:
      return std::tanh(x);
    case Function::kSigmoid:
      return logistic(x);
    case Function::kGelu:
      return x * cumulative(x);
    case Function::kGeluDerivative:
      return cumulative(x) + x * kInverseSqrt2Pi * std::exp(-0.5 * x * x);
    case Function::kGeluTanh:
      return x * logistic(gelu_tanh_argument(x));
    case Function::kGeluTanhDerivative: {
      const double s = logistic(gelu_tanh_argument(x));
      const double slope = 2.0 * std::sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
      return s == 0.0 || s == 1.0 ? s : s + x * s * (1.0 - s) * slope;
    }
    case Function::kRelu:
      return x > 0 ? x : 0;
    case Function::kReluDerivative:
      return x > 0 ? 1 : 0;
    case Function::kSilu:
      return x * logistic(x);
    case Function::kSiluDerivative: {
      const double s = logistic(x);
      return s + x * s * (1.0 - s);
    }
    case Function::kTanhDerivative: {
      const double y = std::tanh(x);
      return 1.0 - y * y;
    }
  }
  return 0;
}

// Every 4093rd float with a magnitude in [2^-40, limit], of both signs, and zeros.
std::vector<float> sample(float limit) {
  std::vector<float> x{0.0F, -0.0F};
  for (uint32_t bits = std::bit_cast<uint32_t>(0x1p-40F); std::bit_cast<float>(bits) <= limit; bits += 4093) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-std::bit_cast<float>(bits));
  }
  return x;
}

// Steps between floats at the magnitude of `value`, not below the smallest normal number's.
double step_at(double value) {
  const float magnitude = std::max(static_cast<float>(std::abs(value)), 0x1p-126F);
  return static_cast<double>(std::nextafter(magnitude, HUGE_VALF)) - static_cast<double>(magnitude);
}

double largest_error(Function function, float limit, double floor = 0.0) {
  const std::vector<float> x = sample(limit);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(evaluate_all)(function, x.data(), static_cast<int64_t>(x.size()), y.data());
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = reference(function, static_cast<double>(x[i]));
    if (std::isinf(static_cast<float>(expected)) &&
        static_cast<double>(y[i]) == static_cast<double>(static_cast<float>(expected)))
      continue;
    const double error = std::abs(static_cast<double>(y[i]) - expected) / std::max(step_at(expected), floor);
    EXPECT_FALSE(std::isnan(y[i])) << "at " << x[i];
    if (error > largest) largest = error;
  }
  return largest;
}

constexpr double kStepAtOne = 0x1p-23;

class SimdMath : public test_support::EveryTarget {};

TEST_P(SimdMath, ErrorsInUnitsInTheLastPlace) {
  EXPECT_LT(largest_error(Function::kExp, 120.0F), 1.0);
  EXPECT_LT(largest_error(Function::kExpm1, 88.0F), 1.5);
  EXPECT_LT(largest_error(Function::kErf, 20.0F), 1.5);
  EXPECT_LT(largest_error(Function::kTanh, 1000.0F), 2.5);
  EXPECT_LT(largest_error(Function::kSigmoid, 80.0F), 3.0);
  EXPECT_LT(largest_error(Function::kRelu, 1e30F), 0.01);
  EXPECT_LT(largest_error(Function::kReluDerivative, 1e30F), 0.01);
}

// Activations and slopes cross zero, or die away through an exponential of a rounded argument: their error is
// counted in steps of the result, or of a floor where the result is smaller.
TEST_P(SimdMath, ErrorsOfActivations) {
  constexpr double kFloor = 1e-3 * kStepAtOne;
  EXPECT_LT(largest_error(Function::kGelu, 1e30F, 1e-30 * kStepAtOne), 200.0);
  EXPECT_LT(largest_error(Function::kGelu, 3.0F), 10.0);
  EXPECT_LT(largest_error(Function::kGeluTanh, 1e30F, kFloor), 12.0);
  EXPECT_LT(largest_error(Function::kSilu, 1e30F, kFloor), 4.0);
  EXPECT_LT(largest_error(Function::kGeluDerivative, 1e30F, kStepAtOne), 3.0);
  EXPECT_LT(largest_error(Function::kGeluTanhDerivative, 1e30F, kStepAtOne), 3.0);
  EXPECT_LT(largest_error(Function::kSiluDerivative, 1e30F, kStepAtOne), 3.0);
  EXPECT_LT(largest_error(Function::kTanhDerivative, 1e30F, kStepAtOne), 3.0);
}

TEST_P(SimdMath, NanComesOutAsNan) {
  for (int function = 0; function <= static_cast<int>(Function::kTanhDerivative); ++function) {
    const std::vector<float> x(37, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(evaluate_all)(static_cast<Function>(function), x.data(), 37, y.data());
    for (const float value : y) EXPECT_TRUE(std::isnan(value)) << "function " << function;
  }
}

TEST_P(SimdMath, ExponentialAtTheEnds) {
  const std::vector<float> x{-HUGE_VALF, -200.0F, -103.0F, -87.5F, 88.7F, 89.0F, 1e30F, HUGE_VALF};
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(evaluate_all)(Function::kExp, x.data(), static_cast<int64_t>(x.size()), y.data());
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_NEAR(y[2], std::exp(-103.0), 0x1p-149);
  EXPECT_NEAR(y[3], std::exp(-87.5), 0x1p-148);
  EXPECT_FALSE(std::isinf(y[4]));
  for (size_t i = 5; i < y.size(); ++i) EXPECT_EQ(y[i], HUGE_VALF);
}

TEST_P(SimdMath, Bfloat16IsTheScalarDefinition) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t high = 0; high < 65536; ++high) {  // ties, and their neighbours
    for (const uint32_t low : {0U, 0x7fffU, 0x8000U, 0x8001U})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  std::vector<bfloat16> y(x.size());
  HWY_DYNAMIC_DISPATCH(to_bfloat16_all)(x.data(), static_cast<int64_t>(x.size()), y.data());
  int64_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += y[i].bits != to_bfloat16(x[i]).bits;
  EXPECT_EQ(wrong, 0);
  std::vector<float> back(y.size());
  HWY_DYNAMIC_DISPATCH(from_bfloat16_all)(y.data(), static_cast<int64_t>(y.size()), back.data());
  for (size_t i = 0; i < y.size(); ++i) {
    wrong += std::bit_cast<uint32_t>(back[i]) != std::bit_cast<uint32_t>(to_float(y[i]));
  }
  EXPECT_EQ(wrong, 0);
}

// A ragged end touches nothing behind it.
TEST_P(SimdMath, PartialStoresStayInside) {
  for (int64_t count = 0; count < 40; ++count) {
    const std::vector<float> x(64, 3.0F);
    std::vector<float> y(64, -1.0F);
    std::vector<bfloat16> z(64, bfloat16{0x1234});
    HWY_DYNAMIC_DISPATCH(evaluate_all)(Function::kRelu, x.data(), count, y.data());
    HWY_DYNAMIC_DISPATCH(to_bfloat16_all)(x.data(), count, z.data());
    for (size_t i = 0; i < y.size(); ++i) {
      const bool inside = static_cast<int64_t>(i) < count;
      EXPECT_EQ(y[i], inside ? 3.0F : -1.0F);
      EXPECT_EQ(z[i].bits, inside ? to_bfloat16(3.0F).bits : 0x1234);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SimdMath, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
