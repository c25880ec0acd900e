// Gradients cut element by element: an update makes of them what it makes of gradients cut beforehand.
#include <gtest/gtest.h>

#include "exec/cpu/optimizers/optimizer_updates_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::GoldenShape;
using test_support::optimizer_updates;
using test_support::OptimizerUpdate;
using test_support::random_tensor;
using test_support::Tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The weight after one update.
std::vector<uint8_t> updated(const OptimizerUpdate& optimizer, const Tensor& gradient,
                             const GoldenShape& shape, float scale, float most) {
  const float learning_rate = 0.01F;
  Tensor weight = random_tensor(DType::kF32, shape.count(), 1);
  optimizer.update({.value = weight.floats()}, gradient, shape,
                   {.learning_rate = &learning_rate, .gradient_scale = &scale, .max_gradient = most});
  return weight.bytes();
}

class MaxGradient : public test_support::EveryTarget {};

TEST_P(MaxGradient, IsTheUpdateOfGradientsCutBeforehand) {
  const float most = 0.25F;

  for (const OptimizerUpdate& optimizer : optimizer_updates()) {
    for (const GoldenShape& shape : {GoldenShape{1, 1}, {1, 17}, {70, 19}, {1, 2049}}) {
      const Tensor gradient = random_tensor(DType::kF32, shape.count(), 2);
      Tensor cut = gradient;
      for (int64_t i = 0; i < shape.count(); ++i) cut.set(i, std::clamp(0.5F * cut[i], -most, most));
      EXPECT_EQ(updated(optimizer, gradient, shape, 0.5F, most), updated(optimizer, cut, shape, 1, kInfinity))
          << optimizer.name << " " << shape.rows << " x " << shape.columns;
      EXPECT_EQ(updated(optimizer, gradient, shape, 1, 1e30F),
                updated(optimizer, gradient, shape, 1, kInfinity))
          << optimizer.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MaxGradient, test_support::every_target(), test_support::target_name);

TEST(MaxGradient, CutsInfinityAndLeavesWhatIsNoNumber) {
  const GoldenShape shape{1, 17};
  for (const OptimizerUpdate& optimizer : optimizer_updates()) {
    // Those with 8-bit states and Adafactor look at more than one element at a time.
    if (optimizer.name != "adamw" && optimizer.name != "sgd") continue;
    Tensor gradient = random_tensor(DType::kF32, shape.count(), 2);
    Tensor cut = gradient;
    gradient.set(3, -kInfinity);
    cut.set(3, -9.0F);
    EXPECT_EQ(updated(optimizer, gradient, shape, 1, 9.0F), updated(optimizer, cut, shape, 1, 9.0F));
    gradient.set(3, NAN);
    const std::vector<uint8_t> bytes = updated(optimizer, gradient, shape, 1, 9.0F);
    float third = 0;
    std::memcpy(&third, bytes.data() + 3 * sizeof(float), sizeof(float));
    EXPECT_TRUE(std::isnan(third)) << optimizer.name;
  }
}

}  // namespace
}  // namespace shoehorn::cpu
