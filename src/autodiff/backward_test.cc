// What append_backward promises of programs; the numbers are tests/backend/op_gradient_test.cc's.
#include "autodiff/backward.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"
#include "ops/verify.h"

namespace shoehorn {
namespace {

class BackwardTest : public testing::Test {
 protected:
  ValueId parameter(const std::string& name, const std::vector<int64_t>& shape, bool trainable = true) {
    const StorageId id = state_.add_storage(
        {name, {DType::kF32, Shape(std::vector<Dim>(shape.begin(), shape.end()))}, Role::kWeight, {}, {}});
    Parameter parameter;
    parameter.name = name;
    parameter.shape = shape;
    parameter.storage = id;
    parameter.trainable = trainable;
    state_.add_parameter(std::move(parameter));
    return program_.read_state(id);
  }
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return builder_.value(kind, std::move(inputs), std::move(attributes), std::string(op_info(kind).name));
  }
  ValueId input(TensorType type, const std::string& name) {
    return program_.read_state(state_.add_storage({name, std::move(type), Role::kInput, {}, {}}));
  }
  ValueId loss(ValueId logits) {
    return op(OpKind::kCrossEntropy,
              {logits, input({DType::kI32, {program_.type(logits).shape[0]}}, "labels"),
               input({DType::kF32, {1}}, "targets")},
              LossAttributes{});
  }
  void expect_user_error(ValueId loss, const std::vector<std::string>& parts) {
    try {
      append_backward(program_, loss);
      FAIL() << "accepted";
    } catch (const UserError& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  // Each gradient is a value of its own in the shape of its storage, which no node reads.
  void expect_own_values(const std::vector<ParameterGradient>& gradients) {
    std::set<ValueId> own;
    const auto readers = program_.readers();
    for (const ParameterGradient& gradient : gradients) {
      const Value& value = program_.value(gradient.gradient);
      EXPECT_TRUE(own.insert(gradient.gradient).second) << value.name << " is two parameters' gradient";
      EXPECT_TRUE(readers[gradient.gradient.at()].empty()) << value.name << " is read by others";
      EXPECT_EQ(value.type, state_.storage(gradient.storage).type);
      EXPECT_EQ(value.role, Role::kGradient);
    }
  }

  StateTable state_;
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
};

TEST_F(BackwardTest, GradientsComeInTheOrderOfTheStorages) {
  const ValueId bias = parameter("bias", {5});
  const ValueId weight = parameter("weight", {5, 4});
  const ValueId x = input({DType::kF32, {3, 4}}, "x");
  const ValueId y =
      op(OpKind::kBiasAdd, {op(OpKind::kMatmul, {x, weight}, MatmulAttributes{.transpose_b = true}), bias});
  const size_t forward = program_.nodes().size();
  const auto gradients = append_backward(program_, loss(y));
  verify(program_);
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_EQ(gradients[0].storage, program_.value(bias).storage);
  EXPECT_EQ(gradients[1].storage, program_.value(weight).storage);
  expect_own_values(gradients);
  for (size_t i = forward + 1; i < program_.nodes().size(); ++i) {
    EXPECT_EQ(program_.nodes()[i].region.phase, Phase::kBackward);
    // x is an input: nothing makes its gradient.
    for (const ValueId output : program_.nodes()[i].outputs)
      EXPECT_NE(program_.value(output).name, "matmul_gradient_a");
  }
}

// What the product read may be dead behind the weight's gradient: x's can have its memory.
TEST_F(BackwardTest, AProductsWeightGradientComesFirst) {
  const ValueId x = op(OpKind::kActivation, {parameter("before", {3, 4})}, ActivationAttributes{});
  const ValueId weight = parameter("weight", {5, 4});
  append_backward(program_, loss(op(OpKind::kMatmul, {x, weight}, MatmulAttributes{.transpose_b = true})));
  std::vector<std::string> gradients;
  for (const Node& node : program_.nodes()) {
    if (node.region.phase == Phase::kBackward && node.kind == OpKind::kMatmul)
      gradients.push_back(program_.value(node.outputs[0]).name);
  }
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_NE(gradients[0], "matmul_gradient_a");
  EXPECT_EQ(gradients[1], "matmul_gradient_a");
}

TEST_F(BackwardTest, NodesKeepTheRegionTheyComeFrom) {
  Region region;
  region.layer = 7;
  region.component = Component::kFeedForward;
  builder_.set_region(region);
  const ValueId y = op(OpKind::kActivation, {parameter("x", {3, 5})}, ActivationAttributes{});
  region.layer = -1;
  region.component = Component::kHead;
  builder_.set_region(region);
  append_backward(program_, loss(y));
  const Node& last = program_.nodes().back();
  EXPECT_EQ(last.kind, OpKind::kActivationGrad);
  EXPECT_EQ(region_name(last.region), "layer 7 feed_forward");
  EXPECT_EQ(last.region.phase, Phase::kBackward);
}

TEST_F(BackwardTest, ATiedParameterHasOneSum) {
  const ValueId weight = parameter("weight", {5, 5});
  const ValueId x = input({DType::kF32, {3, 5}}, "x");
  const MatmulAttributes transposed{.transpose_b = true};
  const auto gradients = append_backward(
      program_,
      loss(op(OpKind::kMatmul, {op(OpKind::kMatmul, {x, weight}, transposed), weight}, transposed)));
  verify(program_);
  ASSERT_EQ(gradients.size(), 1U);
  // The product that gives the gradient of the second use adds to that of the first.
  const Node& last = program_.node(program_.value(gradients[0].gradient).producer);
  ASSERT_EQ(last.kind, OpKind::kMatmul);
  ASSERT_EQ(last.inputs.size(), 4U);
  EXPECT_EQ(program_.node(program_.value(last.inputs[3]).producer).kind, OpKind::kMatmul);
  EXPECT_EQ(terms_in_place(program_, gradients[0].gradient).size(), 2U);
  expect_own_values(gradients);
}

// The gradient of an op without such an input is added by an op of its own.
TEST_F(BackwardTest, ATiedParameterOfOtherOpsHasASum) {
  const ValueId x = parameter("x", {3, 5});
  const ActivationAttributes gelu;
  const auto gradients = append_backward(
      program_,
      loss(op(OpKind::kAdd, {op(OpKind::kActivation, {x}, gelu), op(OpKind::kActivation, {x}, gelu)})));
  verify(program_);
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(program_.node(program_.value(gradients[0].gradient).producer).kind, OpKind::kAdd);
  expect_own_values(gradients);
}

// W + B·A: the sum's gradient is W's, and goes on to B and A.
TEST_F(BackwardTest, AGradientThatGoesOnIsCopied) {
  const ValueId weight = parameter("weight", {5, 4});
  const ValueId product =
      op(OpKind::kMatmul, {parameter("b", {5, 2}), parameter("a", {2, 4})}, MatmulAttributes{});
  const ValueId sum = op(OpKind::kAdd, {op(OpKind::kAdd, {weight, parameter("other", {5, 4})}), product});
  const ValueId x = input({DType::kF32, {3, 4}}, "x");
  const auto gradients =
      append_backward(program_, loss(op(OpKind::kMatmul, {x, sum}, MatmulAttributes{.transpose_b = true})));
  verify(program_);
  EXPECT_EQ(gradients.size(), 4U);
  expect_own_values(gradients);
}

TEST_F(BackwardTest, FrozenParametersHaveNone) {
  const ValueId weight = parameter("weight", {5, 4}, false);
  const ValueId bias = parameter("bias", {5});
  const ValueId x = input({DType::kF32, {3, 4}}, "x");
  const auto gradients = append_backward(
      program_, loss(op(OpKind::kBiasAdd,
                        {op(OpKind::kMatmul, {x, weight}, MatmulAttributes{.transpose_b = true}), bias})));
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(gradients[0].storage, program_.value(bias).storage);
  for (const Node& node : program_.nodes()) {
    EXPECT_FALSE(node.kind == OpKind::kMatmul && node.region.phase == Phase::kBackward)
        << "nobody needs this product";
  }
}

TEST_F(BackwardTest, AParameterWithoutAPathToTheLossIsTheUsersError) {
  const ValueId used = parameter("used", {3, 5});
  const ValueId dangling = parameter("encoder.forgotten.weight", {3, 5});
  op(OpKind::kActivation, {dangling}, ActivationAttributes{});
  expect_user_error(loss(used), {"encoder.forgotten.weight", "path", "freeze"});
}

TEST_F(BackwardTest, SoIsOneThatNoNodeReads) {
  const ValueId used = parameter("used", {3, 5});
  Parameter unread;
  unread.name = "encoder.unread.weight";
  unread.shape = {2};
  unread.storage = state_.add_storage({unread.name, {DType::kF32, {2}}, Role::kWeight, {}, {}});
  state_.add_parameter(unread);
  expect_user_error(loss(used), {"encoder.unread.weight", "path"});
}

TEST_F(BackwardTest, AnOpWithoutABackwardIsNamed) {
  Region region;
  region.layer = 1;
  region.component = Component::kAttention;
  builder_.set_region(region);
  const ValueId x = parameter("x", {3, 5});
  const ValueId y = op(OpKind::kActivationGrad, {x, x}, ActivationAttributes{});
  expect_user_error(loss(y), {"[activation_grad in layer 1 attention]", "backward"});
}

TEST_F(BackwardTest, AnOpWithoutABackwardMayStandBehindWhatIsFrozen) {
  const ValueId frozen = parameter("frozen", {3, 5}, false);
  const ValueId bias = parameter("bias", {5});
  const ValueId y = op(OpKind::kActivationGrad, {frozen, frozen}, ActivationAttributes{});
  EXPECT_EQ(append_backward(program_, loss(op(OpKind::kBiasAdd, {y, bias}))).size(), 1U);
}

TEST_F(BackwardTest, APartialViewHasNoGradientYet) {
  const ValueId x = parameter("x", {6, 5});
  const ValueId y = op(OpKind::kView, {x}, ViewAttributes{{DType::kF32, {3, 5}}, 5});
  expect_user_error(loss(y), {"[view]", "float32[6, 5]"});
}

}  // namespace
}  // namespace shoehorn
