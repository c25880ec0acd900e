#include "graph/state_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/error_testing.h"

namespace shoehorn {
namespace {

class StateTableTest : public testing::Test {
 protected:
  StorageId add(const std::string& name, int64_t rows, int64_t columns, DType dtype = DType::kF32) {
    const StorageId id = state_.add_storage({name, {dtype, {rows, columns}}, Role::kWeight, {}, {}});
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {rows, columns};
    parameter.storage = id;
    state_.add_parameter(std::move(parameter));
    return id;
  }

  StateTable state_;
};

TEST_F(StateTableTest, MergedStoragesLieOneBehindTheOther) {
  const StorageId a = add("a", 2, 3);
  const StorageId other = add("other", 9, 9);
  const StorageId b = add("b", 5, 3);
  const StorageId c = add("c", 1, 3);
  const StorageId whole = state_.merge({b, a, c}, "bac");
  EXPECT_EQ(state_.storage(whole).type, (TensorType{DType::kF32, {8, 3}}));
  EXPECT_EQ(state_.storage(whole).name, "bac");
  std::vector<std::string> names;
  std::vector<int64_t> offsets;
  for (const ParameterId id : state_.parameters_of(whole)) {
    names.push_back(state_.parameter(id).name);
    offsets.push_back(state_.parameter(id).offset_elements);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 15, 21}));
  for (const StorageId part : {a, b, c}) {
    EXPECT_EQ(state_.storage(part).type.bytes(), 0);
    EXPECT_EQ(state_.storage(part).merged_into, whole);
    EXPECT_TRUE(state_.parameters_of(part).empty());
  }
  EXPECT_EQ(state_.storage(other).type.bytes(), 9 * 9 * 4);
}

TEST_F(StateTableTest, RestsAreMergedByThemselves) {
  const StorageId a = add("a", 2, 3, DType::kBF16);
  const StorageId b = add("b", 2, 3, DType::kBF16);
  std::vector<StorageId> rests;
  for (const char* name : {"a", "b"}) {
    rests.push_back(state_.add_storage(
        {std::string(name) + ".rest", {DType::kI16, {2, 3}}, Role::kMasterWeight, {}, {}}));
    state_.parameter(state_.find_parameter(name)).rest = rests.back();
  }
  const StorageId whole = state_.merge({a, b}, "ab");
  const StorageId rest = state_.merge(rests, "ab.rest");
  const Parameter& second = state_.parameter(state_.find_parameter("b"));
  EXPECT_EQ(second.storage, whole);
  EXPECT_EQ(second.rest, rest);
  EXPECT_EQ(second.offset_elements, 6) << "moved once, not once for each half";
}

TEST_F(StateTableTest, OnlyStoragesOfAKindAreMerged) {
  const StorageId a = add("a", 2, 3);
  EXPECT_THROW(state_.merge({a, add("b", 2, 3, DType::kBF16)}, "ab"), InternalError);
  EXPECT_THROW(state_.merge({}, "none"), InternalError);
}

TEST(ShardedTensor, CountsWhatIsHereAndWhatThereIs) {
  Parameter parameter;
  parameter.shape = {4, 6};
  EXPECT_EQ(parameter.global_elements(), 24);
  EXPECT_EQ(parameter.local_elements(), 24);
  EXPECT_EQ(parameter.stored_elements(), 24);
  EXPECT_EQ(parameter.slice(), Slice::whole(24));
  EXPECT_EQ(parameter.owner(), 0);
  EXPECT_TRUE(parameter.is_whole() && !parameter.is_sharded());
  parameter.shard = Shard{.slice = Slice::block(parameter.shape, 1, 4, 6), .padding = 3, .owner = 2};
  EXPECT_EQ(parameter.global_elements(), 24);
  EXPECT_EQ(parameter.local_elements(), 8);
  EXPECT_EQ(parameter.stored_elements(), 11);
  EXPECT_EQ(parameter.owner(), 2);
  EXPECT_TRUE(!parameter.is_whole() && parameter.is_sharded());
}

TEST_F(StateTableTest, ParametersLieBesideEachOtherInTheirStorages) {
  const StorageId a = add("a", 2, 3);
  const StorageId whole = state_.merge({a, add("b", 5, 3)}, "ab");
  EXPECT_NO_THROW(state_.verify_parameters());
  Parameter& b = state_.parameter(state_.find_parameter("b"));
  const auto refused = [&](const char* expected) {
    EXPECT_TRUE(contains(message_of<InternalError>([&] { state_.verify_parameters(); }), expected))
        << expected;
  };
  b.offset_elements = 5;
  refused("a and b overlap in 'ab'");
  b.offset_elements = 7;
  refused("b lies at elements 7 to 22 of 'ab', which has 21");
  b.offset_elements = 6;
  b.shard = Shard{.slice = Slice::range(3, 15), .padding = 3};
  EXPECT_NO_THROW(state_.verify_parameters());
  b.shard->padding = 4;
  refused("b lies at elements 6 to 22");
  b.shard = Shard{.slice = {3, 13, 13, 1}};
  refused("b of 15 elements is said to have elements 3 to 15 here");
  b.shard.reset();
  b.rest = state_.add_storage({"rest", {DType::kI16, {20}}, Role::kMasterWeight, {}, {}});
  refused("of 'rest', which has 20");
  b.rest = {};
  b.storage = {};
  refused("b lies in no storage");
  b.storage = whole;
  EXPECT_NO_THROW(state_.verify_parameters());
}

TEST_F(StateTableTest, ParameterNamesAreUsedOnce) {
  add("layer.weight", 2, 3);
  try {
    add("layer.weight", 2, 3);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("layer.weight"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(state_.find_parameter("layer.weight").valid());
  EXPECT_FALSE(state_.find_parameter("layer").valid());
  EXPECT_FALSE(state_.find_storage("layer").valid());
}

}  // namespace
}  // namespace shoehorn
