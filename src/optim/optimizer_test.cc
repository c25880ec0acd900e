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

// GPT-2's ln_1 has none of the patterns; the Trainer looks at the module.
TEST(IsDecayed, IsNoLayerNormWhateverItsName) {
  Parameter parameter;
  parameter.name = "transformer.h.0.ln_1.weight";
  EXPECT_TRUE(is_decayed(parameter));
  parameter.is_layer_norm = true;
  EXPECT_FALSE(is_decayed(parameter));
}

std::vector<std::string> names_of(const std::vector<OptimizerState>& states) {
  std::vector<std::string> names;
  for (const OptimizerState& state : states) names.push_back(state.name);
  return names;
}

Parameter parameter_of(std::vector<int64_t> shape, bool is_embedding = false) {
  Parameter parameter;
  parameter.shape = std::move(shape);
  parameter.is_embedding = is_embedding;
  return parameter;
}

TEST(OptimizerStates, AreNamedAsTheImplementationsNameThem) {
  using Names = std::vector<std::string>;
  const Parameter matrix = parameter_of({5, 3});
  EXPECT_EQ(names_of(optimizer_states(AdamWSettings{}, matrix)), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_TRUE(optimizer_states(SgdSettings{}, matrix).empty());
  EXPECT_EQ(names_of(optimizer_states(SgdSettings{.momentum = 0.9}, matrix)), Names{"momentum_buffer"});
  EXPECT_EQ(names_of(optimizer_states(AdagradSettings{}, matrix)), Names{"sum"});
  EXPECT_EQ(names_of(optimizer_states(RmsPropSettings{}, matrix)), Names{"square_avg"});
  EXPECT_EQ(names_of(optimizer_states(RmsPropSettings{.momentum = 0.9, .centered = true}, matrix)),
            (Names{"square_avg", "momentum_buffer", "grad_avg"}));
  EXPECT_EQ(names_of(optimizer_states(LionSettings{}, matrix)), Names{"exp_avg"});
}

// A state of each element is cut as its parameter is, a scale of a block with its block; what all elements
// move is whole everywhere, and has one owner.
TEST(OptimizerStates, FollowTheShardOfTheirParameter) {
  Parameter matrix = parameter_of({64, 128});
  const Slice columns = Slice::block(matrix.shape, 1, 32, 64);
  matrix.shard = Shard{.slice = columns, .padding = 5, .owner = 3};
  for (const OptimizerState& kept : optimizer_states(AdamWSettings{}, matrix)) {
    EXPECT_EQ(kept.shape, matrix.shape);
    EXPECT_EQ(kept.slice(), columns);
    EXPECT_EQ(kept.stored_elements(), 64 * 32 + 5);
    EXPECT_EQ(kept.owner(), 3);
  }
  const auto factors = optimizer_states(AdafactorSettings{}, matrix);
  EXPECT_EQ(factors[0].local_elements(), 64);
  EXPECT_EQ(factors[1].local_elements(), 128);
  EXPECT_EQ(factors[1].stored_elements(), 128);
  EXPECT_EQ(factors[0].owner(), kAnotherOwner);
  matrix.shard->slice = Slice::block(matrix.shape, 1, 0, 32);
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, matrix)[1].owner(), 3) << "it has the first element";
  matrix.shard->slice = {};
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, matrix)[1].local_elements(), 128);
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, matrix)[1].owner(), kAnotherOwner);
}

// Moments of rows are where the rows are, with padding in whole rows; those of columns everywhere.
TEST(OptimizerStates, OfRowsFollowTheRows) {
  Parameter cube = parameter_of({4, 10, 30});
  EXPECT_EQ(shard_multiple(AdafactorSettings{}, cube), 30);
  EXPECT_EQ(shard_multiple(AdafactorSettings{}, parameter_of({100})), 1);
  cube.shard = Shard{.slice = Slice::range(8 * 30, 13 * 30), .padding = 2 * 30, .owner = 3};
  const auto states = optimizer_states(AdafactorSettings{.beta1 = 0.9}, cube);
  EXPECT_EQ(states[0].slice(), Slice::range(8, 13)) << "rows of two matrices";
  EXPECT_EQ(states[0].stored_elements(), 7);
  EXPECT_EQ(states[0].owner(), 3);
  EXPECT_EQ(states[1].local_elements(), 4 * 30);
  EXPECT_EQ(states[1].owner(), kAnotherOwner);
  EXPECT_EQ(states[2].slice(), cube.slice());
  cube.shard = Shard{.slice = {}, .padding = 3 * 30, .owner = 3};
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, cube)[0].local_elements(), 0);
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, cube)[0].stored_elements(), 3) << "as much as other parts";
  cube.shard = Shard{.slice = Slice::range(0, 45)};
  EXPECT_EQ(optimizer_states(AdafactorSettings{}, cube)[0].local_elements(), 40) << "a row is cut";
}

TEST(OptimizerStates, BlocksAreNotCut) {
  const AdamW8bitSettings adamw;
  Parameter parameter = parameter_of({20, 500});
  EXPECT_EQ(shard_multiple(adamw, parameter), kStateBlock);
  EXPECT_EQ(shard_multiple(AdamWSettings{}, parameter), 1);
  EXPECT_EQ(shard_multiple(adamw, parameter_of({100})), 1) << "its states have 32 bits";
  const auto blocks_of = [&](const Slice& slice, int64_t padding = 0) {
    parameter.shard = Shard{.slice = slice, .padding = padding};
    return optimizer_states(adamw, parameter).at(2);
  };
  EXPECT_EQ(blocks_of(Slice::range(512, 1280)).slice(), Slice::range(2, 5));
  EXPECT_EQ(blocks_of(Slice::range(9984, 10'000), 752).slice(), Slice::range(39, 40))
      << "the last one is short";
  EXPECT_EQ(blocks_of(Slice::range(9984, 10'000), 752).stored_elements(), 3);
  EXPECT_EQ(blocks_of({}, 512).stored_elements(), 2);
  EXPECT_THROW(blocks_of(Slice::range(0, 500)), InternalError);
  EXPECT_THROW(blocks_of(Slice::range(100, 10'000)), InternalError);
  EXPECT_THROW(blocks_of(Slice::block(parameter.shape, 1, 0, 256)), InternalError);
  parameter.shape = {20, 512};
  EXPECT_EQ(blocks_of(Slice::block(parameter.shape, 1, 256, 512)).slice(), (Slice{1, 1, 2, 20}));
}

TEST(OptimizerStates, AdafactorKeepsRowsAndColumnsOfMatrices) {
  const auto states = optimizer_states(AdafactorSettings{.beta1 = 0.9}, parameter_of({5, 3}));
  ASSERT_EQ(names_of(states), (std::vector<std::string>{"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg"}));
  EXPECT_EQ(states[0].shape, std::vector<int64_t>{5});
  EXPECT_EQ(states[1].shape, std::vector<int64_t>{3});
  EXPECT_EQ(states[2].shape, (std::vector<int64_t>{5, 3}));
  const auto of_matrices = optimizer_states(AdafactorSettings{}, parameter_of({2, 4, 5, 3}));
  EXPECT_EQ(of_matrices[0].shape, (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(of_matrices[1].shape, (std::vector<int64_t>{2, 4, 3}));
  const auto of_vector = optimizer_states(AdafactorSettings{}, parameter_of({7}));
  ASSERT_EQ(names_of(of_vector), std::vector<std::string>{"exp_avg_sq"});
  EXPECT_EQ(of_vector[0].shape, std::vector<int64_t>{7});
}

TEST(OptimizerStates, EightBitsAreForLargeParametersThatAreNoEmbedding) {
  AdamW8bitSettings adamw;
  const auto large = optimizer_states(adamw, parameter_of({64, 65}));
  ASSERT_EQ(names_of(large), (std::vector<std::string>{"state1", "state2", "absmax1", "absmax2"}));
  for (const size_t i : {0U, 1U}) {
    EXPECT_EQ(large[i].dtype, DType::kU8);
    EXPECT_EQ(large[i].shape, (std::vector<int64_t>{64, 65}));
    EXPECT_EQ(large[i + 2].dtype, DType::kF32);
    EXPECT_EQ(large[i + 2].shape, std::vector<int64_t>{17}) << "16 blocks of 256 and a short one";
  }
  const auto is_8bit = [&](const Parameter& parameter) {
    const auto states = optimizer_states(adamw, parameter);
    EXPECT_EQ(states.size(), keeps_8bit_states(adamw, parameter) ? 4U : 2U);
    return states[0].dtype == DType::kU8;
  };
  EXPECT_TRUE(is_8bit(parameter_of({4096})));
  EXPECT_FALSE(is_8bit(parameter_of({4095})));
  EXPECT_FALSE(is_8bit(parameter_of({100, 100}, true)));
  adamw.states = {.least_elements = 10, .of_embeddings = true};
  EXPECT_TRUE(is_8bit(parameter_of({5, 2}, true)));
  EXPECT_FALSE(is_8bit(parameter_of({3, 3}, true)));
  EXPECT_EQ(names_of(optimizer_states(Lion8bitSettings{}, parameter_of({4096}))),
            (std::vector<std::string>{"state1", "absmax1"}));
  EXPECT_FALSE(keeps_8bit_states(AdamWSettings{}, parameter_of({4096})));
}

class AppendUpdate : public testing::Test {
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
    return append_update(builder_, options_,
                         {program_.read_state(rate_), program_.read_state(applied_), {}, {}, 9}, id,
                         state_.parameter(state_.parameters_of(id)[0]).rest, program_.read_state(gradient));
  }

  OptimizerOptions options_;
  StateTable state_;
  StorageId rate_ = state_.add_storage({"rate", {DType::kF32, {1}}, Role::kScalar, {}, {}});
  StorageId applied_ = state_.add_storage({"applied", {DType::kI32, {1}}, Role::kScalar, {}, {}});
  Program program_{ProgramKind::kUpdate, &state_};
  OpBuilder builder_{program_};
};

TEST_F(AppendUpdate, MakesStatesInTheWeightsShapeAndRegion) {
  const NodeId id = append(weight("w", 5, 0.1F, true));
  verify(program_);
  const Node& node = program_.node(id);
  EXPECT_EQ(node.region.layer, 4);
  EXPECT_EQ(node.region.phase, Phase::kUpdate);
  EXPECT_EQ(std::get<UpdateAttributes>(node.attributes).weight_decay, std::vector<float>{0.1F});
  for (const char* name : {"w.exp_avg", "w.exp_avg_sq"}) {
    const Storage& storage = state_.storage(state_.find_storage(name));
    EXPECT_EQ(storage.type, (TensorType{DType::kF32, {5, 3}})) << name;
    EXPECT_EQ(storage.role, Role::kOptimizerState) << name;
  }
  // Weight, rest and both moments have a next version; the gradient has none.
  EXPECT_EQ(node.outputs.size(), 4U);
  for (const ValueId output : node.outputs) EXPECT_EQ(program_.value(output).version, 1);
}

// A bf16 storage without a rest is rounded; each parameter by its own number.
TEST_F(AppendUpdate, RoundsWhatHasNoMasterByParameter) {
  const StorageId a = weight("a", 5, 0);
  const StorageId b = weight("b", 2, 0);
  for (const StorageId id : {a, b}) state_.storage(id).type.dtype = DType::kBF16;
  const StorageId whole = state_.merge({b, a}, "ba");
  const Node& node = program_.node(append(whole));
  verify(program_);
  const auto& attributes = std::get<UpdateAttributes>(node.attributes);
  EXPECT_EQ(attributes.form, WeightForm::kBfloat16);
  EXPECT_EQ(attributes.seed, 9U);
  ASSERT_EQ(attributes.parameters.at(0).size(), 2U);
  EXPECT_EQ(attributes.parameters[0][0].stream_id, 1U) << "b was made second";
  EXPECT_EQ(attributes.parameters[0][1].stream_id, 0U);
  EXPECT_EQ(update_layout(node).gradient_input, 1);
}

TEST_F(AppendUpdate, TakesParametersOfThreeDimensionsWithEveryOptimizer) {
  for (const OptimizerSettings& settings :
       {OptimizerSettings(AdamWSettings{}), OptimizerSettings(AdafactorSettings{}),
        OptimizerSettings(LionSettings{}), OptimizerSettings(AdamW8bitSettings{}),
        OptimizerSettings(SgdSettings{})}) {
    options_.settings = settings;
    const std::string name = "cube" + std::to_string(settings.index());
    const StorageId id = state_.add_storage({name, {DType::kF32, {4, 40, 30}}, Role::kWeight, {}, {}});
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {4, 40, 30};
    parameter.storage = id;
    state_.add_parameter(parameter);
    const Node& node = program_.node(append(id));
    const UpdatedParameter& updated = std::get<UpdateAttributes>(node.attributes).parameters.at(0).at(0);
    EXPECT_EQ(updated.matrices, 4) << name;
    EXPECT_EQ(updated.elements(), 4800) << name;
  }
  verify(program_);
}

// The update of rows reads sums over the whole matrix, and is none without them; rows are not cut.
TEST_F(AppendUpdate, OfRowsReadsSumsOverTheWhole) {
  options_.settings = AdafactorSettings{.scale_parameter = true};
  const StorageId id = state_.add_storage({"rows", {DType::kF32, {4 * 30}}, Role::kWeight, {}, {}});
  Parameter parameter = parameter_of({2, 10, 30});
  parameter.name = "rows";
  parameter.storage = id;
  parameter.shard = Shard{.slice = Slice::range(8 * 30, 11 * 30), .padding = 30, .owner = 2};
  const ParameterId added = state_.add_parameter(parameter);
  const StorageId gradient =
      state_.add_storage({"gradient", {DType::kF32, {4 * 30}}, Role::kGradient, {}, {}});
  EXPECT_TRUE(reads_sums(state_, options_.settings, id));
  EXPECT_FALSE(reads_sums(state_, AdamWSettings{}, id));
  const UpdateInputs shared{program_.read_state(rate_), program_.read_state(applied_), {}, {}, 9};
  EXPECT_THROW(append_update(builder_, options_, shared, id, {}, program_.read_state(gradient)),
               InternalError);
  const ValueId sums = append_update_sums(builder_, options_, shared, id, {}, program_.read_state(gradient));
  EXPECT_EQ(program_.type(sums), (TensorType{DType::kF64, {2 * (2 * 30 + 1) + 1}}));
  const Node& node =
      program_.node(append_update(builder_, options_, shared, id, {}, program_.read_state(gradient), sums));
  const UpdateLayout layout = update_layout(node);
  EXPECT_EQ(node.inputs.at(static_cast<size_t>(layout.shared_inputs + layout.sums_input)), sums);
  EXPECT_EQ(node.outputs.size(), 3U) << "the weight and two moments";
  const UpdatedParameter& updated = std::get<UpdateAttributes>(node.attributes).parameters.at(0).at(0);
  EXPECT_EQ(updated.rows, 3);
  EXPECT_EQ(updated.first_element, 240);
  EXPECT_EQ(updated.whole.matrices, 2);
  EXPECT_EQ(updated.whole.rows, 10);
  state_.parameter(added).shard = Shard{.slice = Slice::range(45, 165), .owner = 2};
  EXPECT_THROW(append_update(builder_, options_, shared, id, {}, program_.read_state(gradient), sums),
               InternalError);
}

TEST_F(AppendUpdate, JoinedUpdatesKeepEachTensorsDecay) {
  const std::vector<NodeId> updates = {append(weight("a", 5, 0.1F)), append(weight("b", 2, 0.0F))};
  const NodeId joined = append_joined_update(builder_, updates);
  program_.reorder({joined});
  verify(program_);
  const Node& node = program_.node(NodeId{0});
  const UpdateLayout layout = update_layout(node);
  EXPECT_EQ(std::get<UpdateAttributes>(node.attributes).weight_decay, (std::vector<float>{0.1F, 0.0F}));
  EXPECT_EQ(static_cast<int64_t>(node.inputs.size()), layout.shared_inputs + 2 * layout.inputs_per_tensor);
  EXPECT_EQ(node.outputs.size(), 6U);
}

// Three matrices in one storage, as the products of q, k and v are: each has rows and columns of its own.
TEST_F(AppendUpdate, StatesOfJoinedParametersLieOneBehindTheOther) {
  options_.settings = AdafactorSettings{};
  const StorageId whole = state_.merge({weight("a", 5, 0), weight("b", 2, 0)}, "ab");
  const Node& node = program_.node(append(whole));
  verify(program_);
  const auto& attributes = std::get<UpdateAttributes>(node.attributes);
  ASSERT_EQ(attributes.parameters.at(0).size(), 2U);
  EXPECT_EQ(attributes.parameters[0][1].rows, 2);
  EXPECT_EQ(attributes.parameters[0][1].columns, 3);
  EXPECT_EQ(attributes.states.at(0), (std::vector<TensorType>{{DType::kF32, {7}}, {DType::kF32, {6}}}));
  const auto elements = [&](const char* name) {
    return state_.storage(state_.find_storage(name)).type.shape.elements();
  };
  EXPECT_EQ(elements("ab.exp_avg_sq_row"), 7);
  EXPECT_EQ(elements("ab.exp_avg_sq_col"), 6);
  const Parameter& b = state_.parameter(state_.find_parameter("b"));
  EXPECT_EQ(find_optimizer_state(state_, options_.settings, b, "exp_avg_sq_row").offset_elements, 5);
  EXPECT_EQ(find_optimizer_state(state_, options_.settings, b, "exp_avg_sq_col").offset_elements, 3);
  EXPECT_EQ(program_.type(node.outputs.back()).shape.elements(), 6);
}

// A block ends with its parameter: of 100 and 30 rows of 3, each has its own two and one.
TEST_F(AppendUpdate, BlocksOf8BitStatesFollowTheParameter) {
  options_.settings = AdamW8bitSettings{.states = {.least_elements = 90}};
  const StorageId whole = state_.merge({weight("a", 100, 0), weight("b", 30, 0)}, "ab");
  const Node& node = program_.node(append(whole));
  verify(program_);
  EXPECT_EQ(node.kind, OpKind::kAdamW8bit);
  EXPECT_EQ(std::get<UpdateAttributes>(node.attributes).states.at(0),
            (std::vector<TensorType>{
                {DType::kU8, {390}}, {DType::kU8, {390}}, {DType::kF32, {3}}, {DType::kF32, {3}}}));
  const Parameter& b = state_.parameter(state_.find_parameter("b"));
  EXPECT_EQ(find_optimizer_state(state_, options_.settings, b, "state2").offset_elements, 300);
  EXPECT_EQ(find_optimizer_state(state_, options_.settings, b, "absmax2").offset_elements, 2);
}

TEST_F(AppendUpdate, SmallParametersOfAn8BitOptimizerHave32Bits) {
  options_.settings = AdamW8bitSettings{.adamw = {.beta1 = 0.8}};
  const Node& node = program_.node(append(weight("w", 5, 0)));
  verify(program_);
  EXPECT_EQ(node.kind, OpKind::kAdamW);
  const auto& attributes = std::get<UpdateAttributes>(node.attributes);
  EXPECT_EQ(std::get<AdamWSettings>(attributes.settings).beta1, 0.8);
  EXPECT_EQ(state_.storage(state_.find_storage("w.state2")).type, (TensorType{DType::kF32, {5, 3}}));
  options_.settings = Lion8bitSettings{};
  EXPECT_EQ(program_.node(append(weight("v", 5, 0))).kind, OpKind::kLion);
}

TEST_F(AppendUpdate, AStorageHasOneKindOfState) {
  options_.settings = AdamW8bitSettings{.states = {.least_elements = 10}};
  const StorageId whole = state_.merge({weight("a", 5, 0), weight("b", 2, 0)}, "ab");
  EXPECT_THROW(append(whole), InternalError);
}

TEST_F(AppendUpdate, AStorageHasOneDecay) {
  const StorageId a = weight("a", 5, 0.1F);
  const StorageId b = weight("b", 2, 0.0F);
  const StorageId whole = state_.merge({a, b}, "ab");
  EXPECT_THROW(append(whole), InternalError);
}

}  // namespace
}  // namespace shoehorn
