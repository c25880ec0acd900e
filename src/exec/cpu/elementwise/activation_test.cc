#include "exec/cpu/elementwise/activation.h"

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;
using test_support::workspace;

constexpr Activation kKinds[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu,
                                 Activation::kSilu, Activation::kTanh};

double value(Activation kind, double x) {
  switch (kind) {
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return x > 0.0 ? x : 0.0;
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return 0.0;
}

double slope(Activation kind, double x) {
  if (kind == Activation::kRelu) return x > 0.0 ? 1.0 : 0.0;
  constexpr double kStep = 1e-5;
  return (value(kind, x + kStep) - value(kind, x - kStep)) / (2 * kStep);
}

struct ActivationCase {
  ActivationCase(DType dtype, Activation activation, int64_t row_count, int64_t columns)
      : kind(activation),
        rows(row_count),
        features(columns),
        x(random_tensor(dtype, rows * features, 1, 0.0F, 2.0F)),
        dy(random_tensor(dtype, rows * features, 2)),
        bias(random_tensor(DType::kF32, features, 3)),
        y(x),
        dx(x),
        dbias(random_tensor(DType::kF32, features, 4)) {}

  void forward(bool with_bias = true) {
    bias_activation_forward({.dtype = x.dtype(),
                             .kind = kind,
                             .rows = rows,
                             .features = features,
                             .x = x.data(),
                             .bias = with_bias ? bias.floats() : nullptr,
                             .y = y.data()});
  }
  void backward(bool accumulate) {
    Tensor scratch = workspace(bias_activation_backward_workspace_bytes(rows, features));
    bias_activation_backward({.dtype = x.dtype(),
                              .kind = kind,
                              .rows = rows,
                              .features = features,
                              .dy = dy.data(),
                              .x = x.data(),
                              .bias = bias.floats(),
                              .dx = dx.data(),
                              .dbias = dbias.floats(),
                              .accumulate = accumulate,
                              .workspace = scratch.data()});
  }

  Activation kind;
  int64_t rows;
  int64_t features;
  Tensor x, dy, bias, y, dx, dbias;
};

class Activations : public test_support::EveryTarget {};

TEST_P(Activations, ForwardAndBackward) {
  for (const DType dtype : kStorages) {
    for (const Activation kind : kKinds) {
      for (const int64_t features : {1, 15, 64, 131}) {
        for (const int64_t rows : {0, 1, 65, 129}) {
          SCOPED_TRACE(
              fmt::format("{} kind {} R {} F {}", dtype_name(dtype), static_cast<int>(kind), rows, features));
          ActivationCase c(dtype, kind, rows, features);
          const bool accumulate = rows == 65;
          std::vector<double> dbias(static_cast<size_t>(features), 0.0);
          for (int64_t i = 0; accumulate && i < features; ++i) {
            dbias[static_cast<size_t>(i)] = static_cast<double>(c.dbias[i]);
          }
          c.forward();
          c.backward(accumulate);
          for (int64_t at = 0; at < rows * features; ++at) {
            const double x = static_cast<double>(c.x[at]) + static_cast<double>(c.bias[at % features]);
            const double y = value(kind, x);
            const double dx = static_cast<double>(c.dy[at]) * slope(kind, x);
            ASSERT_NEAR(static_cast<double>(c.y[at]), y, tolerance(dtype, y, std::abs(x) + 1.0, 8)) << x;
            // 1e-9: the difference quotient's own error.
            ASSERT_NEAR(static_cast<double>(c.dx[at]), dx, tolerance(dtype, dx, 8.0, 8) + 1e-9) << x;
            dbias[static_cast<size_t>(at % features)] += dx;
          }
          for (int64_t i = 0; i < features; ++i) {
            ASSERT_NEAR(static_cast<double>(c.dbias[i]), dbias[static_cast<size_t>(i)],
                        tolerance(DType::kF32, 0.0, 4.0 * static_cast<double>(rows + 1), 16) + 1e-7);
          }
        }
      }
    }
  }
}

TEST_P(Activations, InPlaceAndWithoutBias) {
  for (const Activation kind : kKinds) {
    ActivationCase c(DType::kBF16, kind, 5, 37);
    c.forward(false);
    Tensor x = c.x;
    bias_activation_forward({.dtype = x.dtype(),
                             .kind = kind,
                             .rows = 5,
                             .features = 37,
                             .x = x.data(),
                             .bias = nullptr,
                             .y = x.data()});
    EXPECT_EQ(x.bytes(), c.y.bytes());
    for (int64_t at = 0; at < x.count(); ++at) {
      const double y = value(kind, static_cast<double>(c.x[at]));
      EXPECT_NEAR(static_cast<double>(x[at]), y, tolerance(DType::kBF16, y, 4.0, 8));
    }
    c.backward(false);
    Tensor dy = c.dy;
    bias_activation_backward({.dtype = x.dtype(),
                              .kind = kind,
                              .rows = 5,
                              .features = 37,
                              .dy = dy.data(),
                              .x = c.x.data(),
                              .bias = c.bias.floats(),
                              .dx = dy.data(),
                              .dbias = nullptr,
                              .accumulate = false,
                              .workspace = nullptr});
    EXPECT_EQ(dy.bytes(), c.dx.bytes());
  }
}

TEST_P(Activations, GateAnotherValue) {
  for (const DType dtype : kStorages) {
    for (const Activation kind : kKinds) {
      for (const int64_t count : {0, 1, 15, 64, 131}) {
        SCOPED_TRACE(fmt::format("{} kind {} of {}", dtype_name(dtype), static_cast<int>(kind), count));
        const Tensor gate = random_tensor(dtype, count, 1, 0.0F, 2.0F);
        const Tensor up = random_tensor(dtype, count, 2);
        const Tensor dy = random_tensor(dtype, count, 3);
        Tensor y(dtype, count), dgate(dtype, count), dup(dtype, count);
        gated_activation_forward({dtype, kind, count, gate.data(), up.data(), y.data()});
        gated_activation_backward(
            {dtype, kind, count, dy.data(), gate.data(), up.data(), dgate.data(), dup.data()});
        for (int64_t i = 0; i < count; ++i) {
          const double x = gate[i];
          const double factor = up[i];
          const double gradient = dy[i];
          const double expected = value(kind, x) * factor;
          ASSERT_NEAR(y[i], expected, tolerance(dtype, expected, (std::abs(x) + 1) * std::abs(factor), 8))
              << x;
          const double expected_up = gradient * value(kind, x);
          ASSERT_NEAR(dup[i], expected_up,
                      tolerance(dtype, expected_up, (std::abs(x) + 1) * std::abs(gradient), 8))
              << x;
          const double expected_gate = gradient * factor * slope(kind, x);
          // 1e-9: the difference quotient's own error.
          ASSERT_NEAR(dgate[i], expected_gate,
                      tolerance(dtype, expected_gate, 2 * std::abs(gradient * factor), 8) + 1e-9)
              << x;
        }
      }
    }
  }
}

// The gradients may lie in any of the inputs.
TEST_P(Activations, GatesInPlace) {
  constexpr int64_t kCount = 37;
  const Tensor gate = random_tensor(DType::kBF16, kCount, 1);
  const Tensor up = random_tensor(DType::kBF16, kCount, 2);
  const Tensor dy = random_tensor(DType::kBF16, kCount, 3);
  for (const Activation kind : kKinds) {
    Tensor y(DType::kBF16, kCount), dgate(DType::kBF16, kCount), dup(DType::kBF16, kCount);
    gated_activation_forward({DType::kBF16, kind, kCount, gate.data(), up.data(), y.data()});
    gated_activation_backward(
        {DType::kBF16, kind, kCount, dy.data(), gate.data(), up.data(), dgate.data(), dup.data()});
    for (const bool in_gate : {false, true}) {
      Tensor a = gate, b = up;
      gated_activation_forward(
          {DType::kBF16, kind, kCount, a.data(), b.data(), in_gate ? a.data() : b.data()});
      EXPECT_EQ((in_gate ? a : b).bytes(), y.bytes());
    }
    for (int first = 0; first < 3; ++first) {
      for (int second = 0; second < 3; ++second) {
        if (first == second) continue;
        Tensor inputs[] = {dy, gate, up};
        gated_activation_backward({DType::kBF16, kind, kCount, inputs[0].data(), inputs[1].data(),
                                   inputs[2].data(), inputs[first].data(), inputs[second].data()});
        EXPECT_EQ(inputs[first].bytes(), dgate.bytes());
        EXPECT_EQ(inputs[second].bytes(), dup.bytes());
      }
    }
  }
}

// Where a sigmoid is 0 or 1 to the last place, and at what is no number.
TEST_P(Activations, GatesOfAnySizeAreTheActivationsAlone) {
  const Tensor gate(DType::kF32, {-3e38F, -150.0F, -109.0F, -90.0F, 90.0F, 150.0F, 3e38F, NAN});
  const Tensor one(DType::kF32, std::vector<float>(8, 1.0F));
  for (const Activation kind : kKinds) {
    Tensor y(DType::kF32, 8), dgate(DType::kF32, 8), dup(DType::kF32, 8), dx(DType::kF32, 8);
    bias_activation_forward({.dtype = DType::kF32,
                             .kind = kind,
                             .rows = 1,
                             .features = 8,
                             .x = gate.data(),
                             .bias = nullptr,
                             .y = y.data()});
    bias_activation_backward({.dtype = DType::kF32,
                              .kind = kind,
                              .rows = 1,
                              .features = 8,
                              .dy = one.data(),
                              .x = gate.data(),
                              .bias = nullptr,
                              .dx = dx.data(),
                              .dbias = nullptr,
                              .accumulate = false,
                              .workspace = nullptr});
    gated_activation_backward(
        {DType::kF32, kind, 8, one.data(), gate.data(), one.data(), dgate.data(), dup.data()});
    for (int64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(dup[i], y[i]) << gate[i];
      EXPECT_EQ(dgate[i], dx[i]) << gate[i];
    }
    EXPECT_TRUE(std::isnan(dup[7]) && std::isnan(dgate[7]));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Activations, test_support::every_target(), test_support::target_name);

TEST(Activations, ThreadsLeaveNoTrace) {
  ActivationCase one(DType::kF32, Activation::kGelu, 300, 200);
  with_threads(1, [&] {
    one.forward();
    one.backward(true);
  });
  for (const int threads : {2, 3}) {
    ActivationCase many(DType::kF32, Activation::kGelu, 300, 200);
    with_threads(threads, [&] {
      many.forward();
      many.backward(true);
    });
    EXPECT_EQ(many.y.bytes(), one.y.bytes());
    EXPECT_EQ(many.dx.bytes(), one.dx.bytes());
    EXPECT_EQ(many.dbias.bytes(), one.dbias.bytes());
  }
}

TEST(Activations, GatesInAnyNumberOfThreads) {
  constexpr int64_t kCount = 60000;
  const Tensor gate = random_tensor(DType::kF32, kCount, 1);
  const Tensor up = random_tensor(DType::kF32, kCount, 2);
  const auto run = [&](int threads) {
    Tensor y(DType::kF32, kCount), dgate(DType::kF32, kCount), dup(DType::kF32, kCount);
    with_threads(threads, [&] {
      gated_activation_forward({DType::kF32, Activation::kSilu, kCount, gate.data(), up.data(), y.data()});
      gated_activation_backward({DType::kF32, Activation::kSilu, kCount, y.data(), gate.data(), up.data(),
                                 dgate.data(), dup.data()});
    });
    return std::tuple(y.bytes(), dgate.bytes(), dup.bytes());
  };
  EXPECT_EQ(run(1), run(3));
}

}  // namespace
}  // namespace shoehorn::cpu
