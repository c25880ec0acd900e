#include "exec/cpu/losses/loss.h"

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;
using test_support::workspace;

struct LossCase {
  LossCase(DType dtype, int64_t row_count, int64_t class_count, float smoothing, float offset = 0.0F)
      : rows(row_count),
        classes(class_count),
        label_smoothing(smoothing),
        logits(random_tensor(dtype, rows * classes, 1, offset, 3.0F)),
        dlogits(logits),
        maximum(DType::kF32, rows),
        sum(DType::kF32, rows) {
    for (int64_t r = 0; r < rows; ++r) {
      labels.push_back(r % 4 == 2 ? kIgnoredLabel : static_cast<int32_t>((r * 7919 + 1) % classes));
    }
  }

  void forward(bool accumulate = false) {
    Tensor scratch = workspace(loss_workspace_bytes(rows));
    cross_entropy_forward({.dtype = logits.dtype(),
                           .rows = rows,
                           .classes = classes,
                           .label_smoothing = label_smoothing,
                           .z_loss = z_loss,
                           .logits = logits.data(),
                           .labels = labels.data(),
                           .target_count = &target_count,
                           .row_maximum = maximum.floats(),
                           .row_sum = sum.floats(),
                           .loss = &loss,
                           .right = &right,
                           .accumulate = accumulate,
                           .workspace = scratch.data()});
  }
  void backward(const float* gradient_scale = nullptr) {
    cross_entropy_backward({.dtype = logits.dtype(),
                            .rows = rows,
                            .classes = classes,
                            .label_smoothing = label_smoothing,
                            .z_loss = z_loss,
                            .logits = logits.data(),
                            .labels = labels.data(),
                            .target_count = &target_count,
                            .row_maximum = maximum.floats(),
                            .row_sum = sum.floats(),
                            .gradient_scale = gradient_scale,
                            .dlogits = dlogits.data()});
  }

  // log softmax of a row, in double.
  std::vector<double> log_probabilities(int64_t row) const {
    double largest = -HUGE_VAL;
    for (int64_t c = 0; c < classes; ++c)
      largest = std::max(largest, static_cast<double>(logits[row * classes + c]));
    double total = 0;
    for (int64_t c = 0; c < classes; ++c)
      total += std::exp(static_cast<double>(logits[row * classes + c]) - largest);
    std::vector<double> result;
    for (int64_t c = 0; c < classes; ++c) {
      result.push_back(static_cast<double>(logits[row * classes + c]) - largest - std::log(total));
    }
    return result;
  }

  // Hugging Face's LabelSmoother, term by term.
  double expected_loss() const {
    double label_loss = 0, smoothed = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t label = labels[static_cast<size_t>(r)];
      if (label == kIgnoredLabel) continue;
      const std::vector<double> log_p = log_probabilities(r);
      label_loss -= log_p[static_cast<size_t>(label)];
      for (const double v : log_p) smoothed -= v;
    }
    const double epsilon = static_cast<double>(label_smoothing);
    const double count = static_cast<double>(target_count);
    return (1.0 - epsilon) * label_loss / count + epsilon * smoothed / (count * static_cast<double>(classes));
  }

  int64_t rows;
  int64_t classes;
  float label_smoothing;
  float z_loss = 0.0F;
  float target_count = 23.0F;
  float loss = -1.0F;
  float right = -1.0F;
  std::vector<int32_t> labels;
  Tensor logits, dlogits, maximum, sum;
};

class CrossEntropy : public test_support::EveryTarget {};

TEST_P(CrossEntropy, LossAndGradient) {
  for (const DType dtype : kStorages) {
    for (const float smoothing : {0.0F, 0.1F}) {
      for (const int64_t classes : {2, 3, 17, 1000, 50257}) {
        for (const int64_t rows : {0, 1, 7, 130}) {
          if (rows * classes > 400000) continue;
          SCOPED_TRACE(fmt::format("{} S {} C {} e {}", dtype_name(dtype), rows, classes, smoothing));
          LossCase c(dtype, rows, classes, smoothing, 200.0F);  // whose exponential overflows
          c.forward();
          const double expected = c.expected_loss();
          // A row's loss is a sum of terms of one sign, each rounded a few times; smoothing adds a sum over the
          // classes, eight at a time or more.
          const double roundings =
              8.0 + static_cast<double>(smoothing) * std::sqrt(static_cast<double>(classes) / 8.0);
          const double allowed = tolerance(DType::kF32, 0.0, expected + 1.0, roundings);
          EXPECT_NEAR(static_cast<double>(c.loss), expected, allowed);
          c.forward(true);
          EXPECT_NEAR(static_cast<double>(c.loss), 2.0 * expected, 2.0 * allowed);
          const float scale = 8.0F;
          c.backward(&scale);
          for (int64_t r = 0; r < rows; ++r) {
            const std::vector<double> log_p = c.log_probabilities(r);
            const int32_t label = c.labels[static_cast<size_t>(r)];
            for (int64_t k = 0; k < classes; ++k) {
              const double target = (k == label ? 1.0 - static_cast<double>(smoothing) : 0.0) +
                                    static_cast<double>(smoothing) / static_cast<double>(classes);
              const double p = std::exp(log_p[static_cast<size_t>(k)]);
              const double gradient = label == kIgnoredLabel ? 0.0 : 8.0 * (p - target) / 23.0;
              const double magnitude = (p + target) * 8.0 / 23.0;
              ASSERT_NEAR(
                  static_cast<double>(c.dlogits[r * classes + k]), gradient,
                  tolerance(dtype, gradient, magnitude, 40.0 + std::sqrt(static_cast<double>(classes))));
            }
          }
        }
      }
    }
  }
}

TEST(CrossEntropy, GradientIsTheDifferenceQuotient) {
  LossCase c(DType::kF32, 4, 5, 0.2F);
  c.forward();
  c.backward();
  for (int64_t at = 0; at < 20; ++at) {
    constexpr float kStep = 0x1p-10F;
    LossCase up = c;
    LossCase down = c;
    up.logits.set(at, c.logits[at] + kStep);
    down.logits.set(at, c.logits[at] - kStep);
    const double step = static_cast<double>(up.logits[at]) - static_cast<double>(down.logits[at]);
    // The quotient is off by a sixth of a third derivative, which is below 1, times the square of the step.
    const double allowed = (kStep * kStep / 6.0 + 16 * 0x1p-24) / static_cast<double>(c.target_count);
    EXPECT_NEAR(static_cast<double>(c.dlogits[at]), (up.expected_loss() - down.expected_loss()) / step,
                allowed);
  }
}

// The square of the log-sum-exp is added to each row with a label.
TEST_P(CrossEntropy, ZLoss) {
  for (const DType dtype : kStorages) {
    LossCase c(dtype, 33, 19, 0.1F);
    LossCase plain = c;
    c.z_loss = 0.25F;
    c.forward();
    c.backward();
    plain.forward();
    plain.backward();
    double added = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      const int32_t label = c.labels[static_cast<size_t>(r)];
      const std::vector<double> log_p = c.log_probabilities(r);
      const double log_sum = static_cast<double>(c.logits[r * c.classes]) - log_p[0];
      if (label != kIgnoredLabel) added += 0.25 * log_sum * log_sum / 23.0;
      for (int64_t k = 0; k < c.classes; ++k) {
        const double p = std::exp(log_p[static_cast<size_t>(k)]);
        const double pull = label == kIgnoredLabel ? 0 : 2 * 0.25 * log_sum * p / 23.0;
        const double expected = static_cast<double>(plain.dlogits[r * c.classes + k]) + pull;
        // Both gradients are stored.
        const double magnitude = (2 + std::abs(log_sum)) / 23.0;
        EXPECT_NEAR(static_cast<double>(c.dlogits[r * c.classes + k]), expected,
                    2 * tolerance(dtype, magnitude, magnitude, 16));
      }
    }
    EXPECT_NEAR(static_cast<double>(c.loss), static_cast<double>(plain.loss) + added,
                tolerance(DType::kF32, 0, added + 3, 16));
  }
}

// A label is right at the first of the largest logits; ignored rows are not.
TEST_P(CrossEntropy, CountsRightLabels) {
  for (const DType dtype : kStorages) {
    LossCase c(dtype, 6, 37, 0.0F);
    c.labels = {3, 3, 3, 36, kIgnoredLabel, 0};
    for (int64_t r = 0; r < 6; ++r) c.logits.set(r * 37 + 3, 50.0F);
    c.logits.set(1 * 37 + 2, 50.0F);   // before the label
    c.logits.set(2 * 37 + 30, 50.0F);  // behind it
    c.logits.set(3 * 37 + 36, 51.0F);
    c.forward();
    EXPECT_EQ(c.right, 3.0F);
  }
}

TEST(CrossEntropy, InPlaceAndThreads) {
  for (const DType dtype : kStorages) {
    LossCase one(dtype, 301, 333, 0.1F);
    with_threads(1, [&] {
      one.forward();
      one.backward();
    });
    for (const int threads : {2, 3}) {
      LossCase many(dtype, 301, 333, 0.1F);
      with_threads(threads, [&] {
        many.forward();
        cross_entropy_backward({.dtype = dtype,
                                .rows = 301,
                                .classes = 333,
                                .label_smoothing = 0.1F,
                                .logits = many.logits.data(),
                                .labels = many.labels.data(),
                                .target_count = &many.target_count,
                                .row_maximum = many.maximum.floats(),
                                .row_sum = many.sum.floats(),
                                .gradient_scale = nullptr,
                                .dlogits = many.logits.data()});
      });
      EXPECT_EQ(many.loss, one.loss);
      EXPECT_EQ(many.logits.bytes(), one.dlogits.bytes());
    }
  }
}

TEST_P(CrossEntropy, MaskedLogitsAndNan) {
  LossCase c(DType::kF32, 1, 37, 0.0F);
  c.logits.set(36, -HUGE_VALF);
  c.forward();
  c.backward();
  EXPECT_TRUE(std::isfinite(c.loss));
  EXPECT_EQ(c.dlogits[36], 0.0F);
  for (const int64_t at : {0, 5, 36}) {
    LossCase bad(DType::kF32, 1, 37, 0.0F);
    bad.logits.set(at, NAN);
    bad.forward();
    EXPECT_TRUE(std::isnan(bad.loss)) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropy, test_support::every_target(), test_support::target_name);

TEST(CrossEntropy, RefusesLabelsThatAreNoClass) {
  for (const int32_t label : {-1, 3, -99}) {
    LossCase c(DType::kF32, 2, 3, 0.0F);
    c.labels[1] = label;
    EXPECT_THROW(c.forward(), UserError);
    EXPECT_THROW(c.backward(), UserError);
    EXPECT_EQ(c.loss, -1.0F);
  }
}

// A loss of values in double: of one logit and its value, and its derivative.
struct ValueLoss {
  const char* name;
  void (*forward)(const ValueLossForward&);
  void (*backward)(const ValueLossBackward&);
  double (*loss)(double x, double y);
  double (*gradient)(double x, double y);
};

constexpr ValueLoss kValueLosses[] = {
    {"mean_squared_error", mean_squared_error_forward, mean_squared_error_backward,
     [](double x, double y) { return (x - y) * (x - y); }, [](double x, double y) { return 2 * (x - y); }},
    {"binary_cross_entropy", binary_cross_entropy_forward, binary_cross_entropy_backward,
     [](double x, double y) { return y * std::log1p(std::exp(-x)) + (1 - y) * std::log1p(std::exp(x)); },
     [](double x, double y) { return 1 / (1 + std::exp(-x)) - y; }},
};

class ValueLossTest : public test_support::EveryTarget {};

TEST_P(ValueLossTest, LossAndGradient) {
  for (const ValueLoss& one : kValueLosses) {
    for (const DType dtype : kStorages) {
      for (const auto& [rows, columns] :
           {std::pair<int64_t, int64_t>{0, 3}, {1, 1}, {37, 1}, {5, 19}, {130, 3}}) {
        const Tensor x = random_tensor(dtype, rows * columns, 1, 0.0F, 3.0F);
        Tensor values = random_tensor(DType::kF32, rows * columns, 2);
        Tensor scratch = workspace(loss_workspace_bytes(rows));
        Tensor dx(dtype, rows * columns);
        const float count = 5.0F;
        const float scale = 8.0F;
        float loss = 0.5F;
        one.forward({.dtype = dtype,
                     .rows = rows,
                     .columns = columns,
                     .logits = x.data(),
                     .values = values.floats(),
                     .target_count = &count,
                     .loss = &loss,
                     .accumulate = true,
                     .workspace = scratch.data()});
        one.backward({.dtype = dtype,
                      .rows = rows,
                      .columns = columns,
                      .logits = x.data(),
                      .values = values.floats(),
                      .target_count = &count,
                      .gradient_scale = &scale,
                      .dlogits = dx.data()});
        double expected = 0.5;
        for (int64_t i = 0; i < rows * columns; ++i) {
          const double logit = static_cast<double>(x[i]);
          const double value = static_cast<double>(values[i]);
          expected += one.loss(logit, value) / static_cast<double>(columns) / 5.0;
          const double gradient = 8.0 * one.gradient(logit, value) / static_cast<double>(columns) / 5.0;
          // Both terms of the difference are rounded.
          const double terms =
              8.0 * (std::abs(logit) + std::abs(value) + 1) / static_cast<double>(columns) / 5.0;
          EXPECT_NEAR(static_cast<double>(dx[i]), gradient, tolerance(dtype, gradient, terms, 8)) << one.name;
        }
        EXPECT_NEAR(static_cast<double>(loss), expected, tolerance(DType::kF32, 0.0, std::abs(expected), 4))
            << one.name;
      }
    }
  }
}

// Far from zero nothing overflows, and a right answer's loss is not negative.
TEST_P(ValueLossTest, BinaryCrossEntropyOfLargeLogits) {
  const float logits[] = {-200, -90, 90, 200, 3e38F, -3e38F};
  const float values[] = {0, 1, 0, 1, 1, 0};
  const double expected[] = {0, 90, 90, 0, 0, 0};
  for (size_t i = 0; i < std::size(logits); ++i) {
    const float count = 1.0F;
    float loss = 0;
    float gradient = 0;
    float scratch = 0;
    binary_cross_entropy_forward({.dtype = DType::kF32,
                                  .rows = 1,
                                  .columns = 1,
                                  .logits = &logits[i],
                                  .values = &values[i],
                                  .target_count = &count,
                                  .loss = &loss,
                                  .accumulate = false,
                                  .workspace = &scratch});
    binary_cross_entropy_backward({.dtype = DType::kF32,
                                   .rows = 1,
                                   .columns = 1,
                                   .logits = &logits[i],
                                   .values = &values[i],
                                   .target_count = &count,
                                   .gradient_scale = nullptr,
                                   .dlogits = &gradient});
    EXPECT_EQ(loss, static_cast<float>(expected[i])) << logits[i];
    EXPECT_EQ(gradient, (logits[i] > 0 ? 1.0F : 0.0F) - values[i]) << logits[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ValueLossTest, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
