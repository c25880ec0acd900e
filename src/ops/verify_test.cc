// Each rule of verify.h, broken on purpose.
#include "ops/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/op_builder.h"

namespace shoehorn {
namespace {

class VerifyTest : public testing::Test {
 protected:
  ValueId copy(ValueId input, const std::string& name) {
    return builder_.value(OpKind::kCopy, {input}, {}, name);
  }
  NodeId update() {
    return builder_.add(
        OpKind::kSgd,
        {program_.read_state(rate_),
         program_.read_state(applied_),
         {},
         {},
         program_.read_state(weight_),
         program_.read_state(gradient_)},
        UpdateAttributes{SgdSettings{}, {0.0F}, {{UpdatedParameter{.rows = 3, .columns = 5}}}, {{}}},
        "update");
  }
  void expect_rejected(const std::string& rule) {
    try {
      verify(program_);
      FAIL() << "accepted; expected: " << rule;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(rule), std::string::npos) << error.what();
    }
  }
  StorageId add(const std::string& name, TensorType type, Role role) {
    return state_.add_storage({name, std::move(type), role, {}, {}});
  }

  StateTable state_;
  const TensorType matrix_{DType::kF32, {3, 5}};
  StorageId weight_ = add("weight", matrix_, Role::kWeight);
  StorageId gradient_ = add("gradient", matrix_, Role::kGradient);
  StorageId rate_ = add("rate", {DType::kF32, {1}}, Role::kScalar);
  StorageId applied_ = add("applied", {DType::kI32, {1}}, Role::kScalar);
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
};

TEST_F(VerifyTest, AcceptsAnUpdateBehindItsReaders) {
  program_.add_result("y", copy(program_.read_state(weight_), "y"));
  update();
  verify(program_);
}

TEST_F(VerifyTest, AValueIsMadeBeforeItIsRead) {
  const ValueId a = copy(program_.read_state(weight_), "a");
  copy(a, "b");
  program_.reorder({NodeId{1}, NodeId{0}});
  expect_rejected("reads 'a' before it is made");
}

TEST_F(VerifyTest, AnInputExists) {
  copy(program_.read_state(weight_), "a");
  program_.nodes()[0].inputs[0] = ValueId{99};
  expect_rejected("reads a value that does not exist");
}

TEST_F(VerifyTest, AStateIsReadAtVersionZero) {
  copy(program_.read_state(weight_), "a");
  program_.value(program_.nodes()[0].inputs[0]).version = 1;
  expect_rejected("before it is made");
}

TEST_F(VerifyTest, OutputsHaveTheTypesOfTheirOp) {
  const ValueId a = copy(program_.read_state(weight_), "a");
  program_.value(a).type.dtype = DType::kBF16;
  expect_rejected("output 0 is bfloat16[3, 5], its op gives float32[3, 5]");
}

TEST_F(VerifyTest, OutputsAreAsManyAsTheirOpHas) {
  copy(program_.read_state(weight_), "a");
  program_.nodes()[0].outputs.push_back(program_.add_value({}));
  expect_rejected("has 2 outputs, its op 1");
}

TEST_F(VerifyTest, OutputsPointBack) {
  const ValueId a = copy(program_.read_state(weight_), "a");
  program_.value(a).output = 1;
  expect_rejected("points elsewhere");
}

TEST_F(VerifyTest, StatesAreReadAsTheyAreStored) {
  program_.add_result("y", copy(program_.read_state(weight_), "y"));
  state_.merge({weight_, gradient_ = add("other", matrix_, Role::kWeight)}, "merged");
  expect_rejected("its storage is");
}

TEST_F(VerifyTest, AnOldVersionIsNotReadAfterTheUpdate) {
  update();
  copy(program_.read_state(weight_), "late");
  expect_rejected("reads version 0 of 'weight' after version 1");
}

TEST_F(VerifyTest, NorThroughAView) {
  const ValueId view = builder_.value(OpKind::kView, {program_.read_state(weight_)},
                                      ViewAttributes{{DType::kF32, {5}}, 5}, "row");
  const ValueId again = builder_.value(OpKind::kView, {view}, ViewAttributes{{DType::kF32, {2}}, 1}, "part");
  EXPECT_EQ(view_root(program_, again), program_.read_state(weight_));
  verify(program_);
  update();
  verify(program_);
  copy(again, "late");
  expect_rejected("reads version 0 of 'weight' after version 1");
}

TEST_F(VerifyTest, TheNewVersionMayBeReadAfterTheUpdate) {
  copy(program_.node(update()).outputs[0], "fresh");
  verify(program_);
}

TEST_F(VerifyTest, AnUpdateConsumesTheNewestVersion) {
  update();
  update();
  expect_rejected("after version 1 was written");
}

TEST_F(VerifyTest, AnUpdateYieldsTheNextVersion) {
  const NodeId node = update();
  program_.value(program_.node(node).outputs[0]).version = 2;
  expect_rejected("writes version 2");
}

TEST_F(VerifyTest, AnUpdateStaysInItsState) {
  const NodeId node = update();
  program_.value(program_.node(node).outputs[0]).storage = gradient_;
  expect_rejected("is not the next version of its state");
}

TEST_F(VerifyTest, AStateKeepsItsSize) {
  const ValueId a = copy(program_.read_state(weight_), "a");
  builder_.bind_output(a, rate_);
  expect_rejected("in another size");
}

TEST_F(VerifyTest, WhatIsOverwrittenIsNotReadLater) {
  const ValueId x = copy(program_.read_state(weight_), "x");
  const ValueId sum = builder_.value(OpKind::kColumnSum, {x}, {}, "sum");
  const ValueId more = builder_.value(OpKind::kColumnSum, {x, sum}, {}, "more");
  program_.add_result("more", more);
  verify(program_);
  program_.add_result("late", copy(sum, "late"));
  expect_rejected("overwrites 'sum', which node 3 reads later");
}

TEST_F(VerifyTest, ResultsExist) {
  program_.add_result("y", ValueId{});
  expect_rejected("result 'y' does not exist");
}

TEST_F(VerifyTest, ABoundSumTakesItsFirstTermsAlong) {
  const ValueId x = copy(program_.read_state(weight_), "x");
  const StorageId total = add("total", {DType::kF32, {5}}, Role::kGradient);
  const ValueId sum = builder_.value(OpKind::kColumnSum, {x}, {}, "sum");
  const ValueId more = builder_.value(OpKind::kColumnSum, {x, sum}, {}, "more");
  builder_.bind_output(more, total);
  verify(program_);
  EXPECT_EQ(program_.value(sum).storage, total);
  EXPECT_EQ(program_.value(sum).version, 1);
  EXPECT_EQ(program_.value(more).version, 2);
  EXPECT_EQ(program_.value(more).role, Role::kGradient);
  EXPECT_THROW(builder_.bind_output(more, total), InternalError);
}

}  // namespace
}  // namespace shoehorn
