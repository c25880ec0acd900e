// What the training guides say of a transformer's operations, as statements about the op table.
#include <gtest/gtest.h>

#include "ops/op_builder.h"
#include "ops/op_info.h"

namespace shoehorn {
namespace {

class OpCost : public ::testing::Test {
 protected:
  ValueId read(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return program_.read_state(state_.add_storage({name, {dtype, std::move(shape)}, Role::kWeight, {}, {}}));
  }
  Cost cost(ValueId value) const {
    const Node& node = program_.node(program_.value(value).producer);
    return op_info(node.kind).cost({program_, node});
  }

  StateTable state_;
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
};

constexpr int64_t kRows = 32;
constexpr int64_t kInputs = 24;
constexpr int64_t kOutputs = 40;

// y = x·Wᵀ; its two gradients are products of the same size each.
TEST_F(OpCost, LinearLayersHaveTwiceTheFlopsInTheBackward) {
  const ValueId x = read("x", {kRows, kInputs}), w = read("w", {kOutputs, kInputs});
  const ValueId dy = read("dy", {kRows, kOutputs});
  const double forward =
      cost(builder_.value(OpKind::kMatmul, {x, w}, MatmulAttributes{false, true}, "y")).flops;
  const double of_x =
      cost(builder_.value(OpKind::kMatmul, {dy, w}, MatmulAttributes{false, false}, "dx")).flops;
  const double of_w =
      cost(builder_.value(OpKind::kMatmul, {dy, x}, MatmulAttributes{true, false}, "dw")).flops;
  EXPECT_EQ(forward, 2.0 * kRows * kInputs * kOutputs);
  EXPECT_EQ(of_x + of_w, 2 * forward);
}

TEST_F(OpCost, ActivationsReadOnceForwardAndTwiceBackward) {
  const ValueId x = read("x", {kRows, kInputs}), dy = read("dy", {kRows, kInputs});
  constexpr double kBytes = 4.0 * kRows * kInputs;
  const Cost forward = cost(builder_.value(OpKind::kActivation, {x}, ActivationAttributes{}, "y"));
  EXPECT_EQ(forward.bytes_read, kBytes);
  EXPECT_EQ(forward.bytes_written, kBytes);
  const Cost backward = cost(builder_.value(OpKind::kActivationGrad, {dy, x}, ActivationAttributes{}, "dx"));
  EXPECT_EQ(backward.bytes_read, 2 * kBytes);
  EXPECT_EQ(backward.bytes_written, kBytes);
}

// Products do many operations a byte, the other classes few: the order in which the guides list them.
TEST_F(OpCost, ClassesDifferInOperationsAByte) {
  constexpr int64_t kWide = 512;
  const ValueId x = read("x", {kWide, kWide}), w = read("w", {kWide, kWide});
  const ValueId gamma = read("gamma", {kWide}), beta = read("beta", {kWide});
  const auto intensity = [&](OpKind kind, std::vector<ValueId> inputs, Attributes attributes) {
    const Cost made = cost(builder_.value(kind, std::move(inputs), std::move(attributes), "y"));
    return made.flops / (made.bytes_read + made.bytes_written);
  };
  const double product = intensity(OpKind::kMatmul, {x, w}, MatmulAttributes{});
  const double norm = intensity(OpKind::kLayerNorm, {x, gamma, beta}, NormalizationAttributes{});
  const double add = intensity(OpKind::kAdd, {x, w}, {});
  EXPECT_GT(product, 10 * norm);
  EXPECT_GT(norm, add);
}

}  // namespace
}  // namespace shoehorn
