#include "graph/program.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

TensorType vector_of(int64_t count) {
  return {DType::kF32, {Dim(count)}};
}

class ProgramTest : public testing::Test {
 protected:
  ValueId add(const std::vector<ValueId>& inputs, const std::string& name) {
    Node node;
    node.kind = OpKind::kCopy;
    node.inputs = inputs;
    return program_.node(program_.add_node(std::move(node), {vector_of(4)}, name)).outputs[0];
  }

  StateTable state_;
  StorageId weight_ = state_.add_storage({"weight", vector_of(4), Role::kWeight, {}, {}});
  Program program_{ProgramKind::kTrainStep, &state_};
};

TEST_F(ProgramTest, AStateIsReadThroughOneValue) {
  const ValueId read = program_.read_state(weight_);
  EXPECT_EQ(program_.read_state(weight_), read);
  EXPECT_EQ(program_.value(read).type, vector_of(4));
  EXPECT_EQ(program_.value(read).role, Role::kWeight);
  EXPECT_FALSE(program_.value(read).producer.valid());
}

// An input is as large as the largest bucket needs; a smaller one's program reads as much as its count may be.
TEST_F(ProgramTest, AStateIsReadAsFarAsTheCountsOfTheProgramGo) {
  const CountId tokens = program_.add_count("tokens", 16);
  const StorageId input =
      state_.add_storage({"input_ids", {DType::kI32, {Dim(64, tokens), 3}}, Role::kInput, {}, {}});
  const std::vector<Dim> dims = program_.state_type(input).shape.dims();
  EXPECT_EQ(dims.at(0).maximum, 16);
  EXPECT_EQ(dims.at(0).count, tokens);
  EXPECT_EQ(dims.at(1).maximum, 3);
}

TEST_F(ProgramTest, OutputsPointBackToTheirNode) {
  Node node;
  const NodeId id = program_.add_node(node, {vector_of(4), vector_of(2)}, "y");
  ASSERT_EQ(program_.node(id).outputs.size(), 2U);
  const Value& second = program_.value(program_.node(id).outputs[1]);
  EXPECT_EQ(second.producer, id);
  EXPECT_EQ(second.output, 1);
  EXPECT_EQ(second.name, "y.1");
}

TEST_F(ProgramTest, ReadersCountEachUse) {
  const ValueId read = program_.read_state(weight_);
  const ValueId a = add({read}, "a");
  add({a, a}, "b");
  const ValueId unread = add({}, "c");
  const Readers readers = program_.readers();
  const auto of = [&readers](ValueId value) {
    return std::vector<NodeId>(readers[value.at()].begin(), readers[value.at()].end());
  };
  EXPECT_EQ(of(read), std::vector<NodeId>{NodeId{0}});
  EXPECT_EQ(of(a), (std::vector<NodeId>{NodeId{1}, NodeId{1}}));
  EXPECT_TRUE(of(unread).empty());
}

TEST_F(ProgramTest, TheNewestVersionOfAStateIsKnown) {
  const ValueId read = program_.read_state(weight_);
  EXPECT_FALSE(program_.newest_version(weight_).valid());
  const ValueId first = add({read}, "first"), second = add({first}, "second"), third = add({second}, "third");
  program_.set_version(second, weight_, 2);
  program_.set_version(third, weight_, 3);
  program_.set_version(first, weight_, 1);
  EXPECT_EQ(program_.newest_version(weight_), third);
  EXPECT_EQ(program_.value(third).role, Role::kWeight);
  program_.unset_version(first);
  EXPECT_EQ(program_.newest_version(weight_), third);
  program_.unset_version(third);
  EXPECT_EQ(program_.newest_version(weight_), second);
  EXPECT_FALSE(program_.value(third).storage.valid());
  program_.unset_version(second);
  EXPECT_FALSE(program_.newest_version(weight_).valid());
}

TEST_F(ProgramTest, DeadNodesGoAndTheRestIsRenumbered) {
  const ValueId read = program_.read_state(weight_);
  const ValueId dead = add({read}, "dead");
  add({dead}, "dead as well");
  const ValueId alive = add({read}, "alive");
  const ValueId updated = add({read}, "update");
  program_.set_version(updated, weight_, 1);
  const ValueId clone = add({alive}, "clone");
  program_.node(program_.value(clone).producer).clone_of = program_.value(alive).producer;
  program_.add_result("y", clone);
  EXPECT_EQ(program_.remove_dead_nodes(), 2);
  ASSERT_EQ(program_.nodes().size(), 3U);
  EXPECT_EQ(program_.value(alive).producer, NodeId{0});
  EXPECT_EQ(program_.value(updated).producer, NodeId{1});
  EXPECT_EQ(program_.value(clone).producer, NodeId{2});
  EXPECT_EQ(program_.node(NodeId{2}).clone_of, NodeId{0});
  EXPECT_EQ(program_.remove_dead_nodes(), 0);
}

TEST_F(ProgramTest, AnOrderNamesANodeOnce) {
  add({program_.read_state(weight_)}, "a");
  EXPECT_THROW(program_.reorder({NodeId{0}, NodeId{0}}), InternalError);
}

TEST_F(ProgramTest, ReplacedUsesIncludeResults) {
  const ValueId a = add({program_.read_state(weight_)}, "a");
  const ValueId b = add({program_.read_state(weight_)}, "b");
  const ValueId c = add({a}, "c");
  program_.add_result("y", a);
  program_.replace_uses(a, b);
  EXPECT_EQ(program_.node(program_.value(c).producer).inputs[0], b);
  EXPECT_EQ(program_.result("y"), b);
  EXPECT_FALSE(program_.result("z").valid());
}

TEST_F(ProgramTest, ManyUsesAreReplacedAtOnce) {
  const ValueId a = add({program_.read_state(weight_)}, "a");
  const ValueId b = add({program_.read_state(weight_)}, "b");
  const ValueId c = add({program_.read_state(weight_)}, "c");
  const ValueId d = add({program_.read_state(weight_)}, "d");
  const ValueId e = add({a, ValueId(), b, c}, "e");
  program_.add_result("y", b);
  const std::vector<ValueId> from = {a, b}, to = {c, d};
  program_.replace_uses(from, to);
  EXPECT_EQ(program_.node(program_.value(e).producer).inputs, (std::vector<ValueId>{c, ValueId(), d, c}));
  EXPECT_EQ(program_.result("y"), d);
  const std::vector<ValueId> chained = {b, c};
  EXPECT_THROW(program_.replace_uses(from, chained), InternalError) << "b is replaced and replaces";
  EXPECT_THROW(program_.replace_uses(from, std::span(to).first(1)), InternalError);
}

TEST(Types, NamesShowCountsAndBytesCountMaxima) {
  const TensorType type{DType::kBF16, {Dim(48, CountId{0}), Dim(5)}};
  EXPECT_EQ(type_name(type), "bfloat16[48*, 5]");
  EXPECT_EQ(type.bytes(), 480);
  EXPECT_EQ(TensorType{}.shape.elements(), 1) << "a scalar";
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}.elements()), UserError);
  EXPECT_THROW(Shape{-1}.elements(), InternalError);
  Region region;
  region.layer = 3;
  region.component = Component::kAttention;
  EXPECT_EQ(region_name(region), "layer 3 attention");
}

}  // namespace
}  // namespace shoehorn
