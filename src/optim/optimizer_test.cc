#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/update_layout.h"
#include "ops/verify.h"

namespace shoehorn {
namespace {

TEST(IsDecayed, FollowsTheTrainersPatterns) {
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight", "classifier.weight", "normal.weight", "denorm.weight",
        "layer.normalize.weight", "norms.weight", "x.norm2.weight", "prenorm.weight"}) {
    EXPECT_TRUE(is_decayed(name)) << name;
  }
  for (const char* name :
       {"classifier.bias", "bert.LayerNorm.weight", "a.layernorm.weight", "input_layernorm.weight",
        "x.RMSNorm.weight", "norm.weight", "model.norm", "model.norm.weight", "norm", "q_norm.weight",
        "q_norm", "a.BIAS", "relative_attention_bias.weight"}) {
    EXPECT_FALSE(is_decayed(name)) << name;
  }
}

TEST(StateNames, AreTorchs) {
  OptimizerOptions options;
  EXPECT_EQ(optimizer_state_names(options), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  options.kind = OptimizerKind::kSgd;
  EXPECT_TRUE(optimizer_state_names(options).empty());
  options.momentum = 0.9F;
  EXPECT_EQ(optimizer_state_names(options), (std::vector<std::string>{"momentum_buffer"}));
}

class AppendUpdate : public ::testing::Test {
 protected:
  StorageId weight(const std::string& name, int64_t rows, float decay, bool split = false) {
    Region region;
    region.layer = 4;
    region.component = Component::kFeedForward;
    const StorageId id = state_.add_storage(
        {name, {split ? DType::kBF16 : DType::kF32, {rows, 3}}, Role::kWeight, region, {}});
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {rows, 3};
    parameter.storage = id;
    parameter.weight_decay = decay;
    if (split)
      parameter.rest =
          state_.add_storage({name + ".rest", {DType::kI16, {rows, 3}}, Role::kMasterWeight, region, {}});
    state_.add_parameter(parameter);
    return id;
  }
  NodeId append(StorageId id) {
    const StorageId gradient = state_.add_storage({state_.storage(id).name + ".gradient",
                                                   {DType::kF32, state_.storage(id).type.shape},
                                                   Role::kGradient,
                                                   {},
                                                   {}});
    return append_update(builder_, options_, program_.read_state(rate_), program_.read_state(applied_), {},
                         id, state_.parameter(state_.parameters_of(id)[0]).rest,
                         program_.read_state(gradient));
  }

  OptimizerOptions options_;
  StateTable state_;
  StorageId rate_ = state_.add_storage({"rate", {DType::kF32, {1}}, Role::kScalar, {}, {}});
  StorageId applied_ = state_.add_storage({"applied", {DType::kI32, {1}}, Role::kScalar, {}, {}});
  Program program_{"update", &state_};
  OpBuilder builder_{program_};
};

TEST_F(AppendUpdate, MakesStatesInTheWeightsShapeAndRegion) {
  const NodeId id = append(weight("w", 5, 0.1F, true));
  verify(program_);
  const Node& node = program_.node(id);
  EXPECT_EQ(node.region.layer, 4);
  EXPECT_EQ(node.region.phase, Phase::kUpdate);
  EXPECT_EQ(std::get<AdamWAttributes>(node.attributes).weight_decay, std::vector<float>{0.1F});
  for (const char* name : {"w.exp_avg", "w.exp_avg_sq"}) {
    const Storage& storage = state_.storage(state_.find_storage(name));
    EXPECT_EQ(storage.type, (TensorType{DType::kF32, {5, 3}})) << name;
    EXPECT_EQ(storage.role, Role::kOptimizerState) << name;
  }
  // Weight, rest and both moments have a next version; the gradient has none.
  EXPECT_EQ(node.outputs.size(), 4U);
  for (const ValueId output : node.outputs) EXPECT_EQ(program_.value(output).version, 1);
}

TEST_F(AppendUpdate, JoinedUpdatesKeepEachTensorsDecay) {
  const std::vector<NodeId> updates = {append(weight("a", 5, 0.1F)), append(weight("b", 2, 0.0F))};
  const NodeId joined = append_joined_update(builder_, updates);
  program_.reorder({joined});
  verify(program_);
  const Node& node = program_.node(NodeId{0});
  const UpdateLayout layout = update_layout(node);
  EXPECT_EQ(std::get<AdamWAttributes>(node.attributes).weight_decay, (std::vector<float>{0.1F, 0.0F}));
  EXPECT_EQ(static_cast<int64_t>(node.inputs.size()), layout.shared_inputs + 2 * layout.inputs_per_tensor);
  EXPECT_EQ(node.outputs.size(), 6U);
}

TEST_F(AppendUpdate, AStorageHasOneDecay) {
  const StorageId a = weight("a", 5, 0.1F);
  const StorageId b = weight("b", 2, 0.0F);
  const StorageId whole = state_.merge({a, b}, "ab");
  EXPECT_THROW(append(whole), InternalError);
}

}  // namespace
}  // namespace shoehorn
