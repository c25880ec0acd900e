// What each pass does to a BERT of three layers, as programs; that it is right is for tests/ to show.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "base/error.h"
#include "data/batch_table.h"
#include "model/layers.h"
#include "ops/op_info.h"
#include "ops/verify.h"
#include "passes/passes_testing.h"
#include "tasks/single_label_classification.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;
using test_support::kCapacity;
using test_support::small_bert;

class FuseTest : public testing::TestWithParam<float> {};

TEST_P(FuseTest, FindsEveryPattern) {
  const ProgramFamily family = build({}, GetParam());
  for (const Program& program : family.programs) {
    EXPECT_EQ(count(program, OpKind::kAttention), 3) << program.name();
    EXPECT_EQ(count(program, OpKind::kBiasDropoutResidualLayerNorm), 6);
    EXPECT_EQ(count(program, OpKind::kBiasActivation, Phase::kForward), 4)
        << "three of feed-forward, the pooler's";
    EXPECT_EQ(count(program, OpKind::kMatmul, Phase::kForward), 3 * 4 + 2);
    EXPECT_EQ(count(program, OpKind::kLayerNorm), 1) << "of the embeddings, which have no bias before it";
    for (const OpKind gone : {OpKind::kBiasAdd, OpKind::kActivation, OpKind::kAttentionScores,
                              OpKind::kAttentionSoftmax, OpKind::kAttentionContext, OpKind::kAdd}) {
      EXPECT_EQ(count(program, gone, Phase::kForward), 0) << op_info(gone).name;
    }
  }
  EXPECT_EQ(count(family.programs[0], OpKind::kDropout, Phase::kForward), GetParam() > 0 ? 2 : 0);
  const Parameter& key =
      family.state->parameter(family.state->find_parameter("bert.encoder.layer.1.attention.self.key.weight"));
  EXPECT_EQ(key.offset_elements, 12 * 12);
  EXPECT_EQ(family.state->storage(key.storage).type.shape, (Shape{36, 12}));
}

INSTANTIATE_TEST_SUITE_P(Dropout, FuseTest, testing::Values(0.0F, 0.1F));

TEST(Fuse, CanBeSkipped) {
  StepOptions options;
  options.skip_passes = {"fuse"};
  const ProgramFamily family = build(options);
  EXPECT_EQ(count(family.programs[0], OpKind::kAttention), 0);
  EXPECT_EQ(count(family.programs[0], OpKind::kAttentionScores), 3);
  EXPECT_EQ(count(family.programs[0], OpKind::kMatmul, Phase::kForward), 3 * 6 + 2);
}

// A layer used twice, and one whose query weight serves as another projection as well.
class SharedLayer final : public Model {
 public:
  explicit SharedLayer(bool query_elsewhere) : query_elsewhere_(query_elsewhere) {}
  Outputs forward(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(embedding_table(builder, "table", 50, 12, 0.1F),
                                 builder.input(BatchColumn::kInputIds));
    for (int layer = 0; layer < 2; ++layer) {
      builder.set_region(layer, Component::kAttention);
      const auto part = [&](const char* name) { return linear_layer(builder, name, x, 12, 0.1F); };
      x = builder.attention(part("query"), part("key"), part("value"), {.heads = 3, .dropout = 0.1F});
      if (query_elsewhere_)
        x = builder.activation(linear_layer(builder, "query", x, 12, 0.1F), Activation::kTanh);
    }
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "head", builder.first_tokens(x), 2, 0.1F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 16; }
  int64_t vocab_size() const override { return 50; }

 private:
  bool query_elsewhere_;
  SingleLabelClassification task_{2};
};

TEST(Fuse, MergesALayerThatIsUsedTwiceOnce) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions options;
    options.precision = precision;
    const ProgramFamily family = build(SharedLayer(false), options);
    for (const Program& program : family.programs)
      EXPECT_EQ(count(program, OpKind::kAttention), 2) << program.name();
    EXPECT_TRUE(family.state->find_storage("query.weight.qkv").valid());
  }
}

// What an activation reads and what a norm reads, its sum, are read again behind them: the fused norm has the sum, the
// fused activation has nothing but its own output.
class ReadTwice final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(embedding_table(builder, "table", 50, 12, 0.1F),
                                 builder.input(BatchColumn::kInputIds));
    builder.set_region(0, Component::kFeedForward);
    const Tensor inner = linear_layer(builder, "inner", x, 12, 0.1F);
    x = builder.add(builder.activation(inner, Activation::kGelu), inner);
    const Tensor sum = builder.add(linear_layer(builder, "outer", x, 12, 0.1F), x);
    x = builder.add(layer_norm_layer(builder, "norm", sum, 1e-5F), sum);
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "head", builder.first_tokens(x), 2, 0.1F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 16; }
  int64_t vocab_size() const override { return 50; }

 private:
  SingleLabelClassification task_{2};
};

TEST(Fuse, LeavesChainsWhoseMiddleOthersRead) {
  const ProgramFamily family = build(ReadTwice());
  for (const Program& program : family.programs) {
    EXPECT_EQ(count(program, OpKind::kBiasActivation), 0) << program.name();
    EXPECT_EQ(count(program, OpKind::kActivation, Phase::kForward), 1) << program.name();
    EXPECT_EQ(count(program, OpKind::kBiasDropoutResidualLayerNorm), 1) << "the op hands the sum on";
    EXPECT_EQ(count(program, OpKind::kLayerNorm), 0) << program.name();
    EXPECT_EQ(count(program, OpKind::kBiasAdd), 0) << "a bias goes into its product in any case";
  }
}

TEST(Fuse, LeavesWeightsThatOthersRead) {
  const ProgramFamily family = build(SharedLayer(true));
  for (const Program& program : family.programs) {
    verify(program);
    EXPECT_EQ(count(program, OpKind::kAttention), 2) << program.name();
  }
  EXPECT_FALSE(family.state->find_storage("query.weight.qkv").valid());
  EXPECT_TRUE(family.state->find_storage("key.weight.kv").valid());
}

TEST(MixedPrecision, TypesWhatProductsReadAndWrite) {
  StepOptions options;
  options.precision = Precision::kBfloat16;
  const ProgramFamily family = build(options);
  for (const Program& program : family.programs) {
    const ValueId logits = program.node(program.value(program.result("loss")).producer).inputs[0];
    EXPECT_EQ(program.type(logits).dtype, DType::kF32);
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kMatmul) continue;
      EXPECT_EQ(program.type(node.inputs[0]).dtype, DType::kBF16);
      EXPECT_EQ(program.type(node.inputs[1]).dtype, DType::kBF16);
      if (node.region.phase == Phase::kForward && node.outputs[0] != logits) {
        EXPECT_EQ(program.type(node.outputs[0]).dtype, DType::kBF16);
      }
    }
  }
  for (const ParameterGradient& gradient : family.gradients[0]) {
    EXPECT_EQ(family.programs[0].type(gradient.gradient).dtype, DType::kF32);
  }
  for (const Parameter& parameter : family.state->parameters()) {
    const bool product =
        parameter.shape.size() == 2 && parameter.name.find("embeddings") == std::string::npos;
    EXPECT_EQ(parameter.rest.valid(), product) << parameter.name;
    EXPECT_EQ(family.state->storage(parameter.storage).type.dtype, product ? DType::kBF16 : DType::kF32)
        << parameter.name;
    EXPECT_TRUE(!product || family.state->storage(parameter.rest).type.dtype == DType::kI16)
        << parameter.name;
  }
}

StepOptions fp16_options(int64_t micro_batches = 1) {
  StepOptions options;
  options.precision = Precision::kFloat16;
  options.gradient_accumulation_steps = micro_batches;
  return options;
}

bool is_product_weight(const Parameter& parameter) {
  return parameter.shape.size() == 2 && parameter.name.find("embeddings") == std::string::npos;
}

// Masters are fp32; a weight is cast once, before its first product; its gradient is fp32 all the way.
TEST(MixedPrecision, CastsEachWeightOfAFloat16StepOnce) {
  const ProgramFamily family = build(fp16_options());
  for (const Program& program : family.programs) {
    std::set<StorageId> cast;
    for (const Node& node : program.nodes()) {
      if (node.kind == OpKind::kMatmul) {
        EXPECT_EQ(program.type(node.inputs[0]).dtype, DType::kF16);
        EXPECT_EQ(program.type(node.inputs[1]).dtype, DType::kF16);
      }
      if (node.kind != OpKind::kCast || !program.value(node.inputs[0]).storage.valid()) continue;
      EXPECT_TRUE(cast.insert(program.value(node.inputs[0]).storage).second) << "cast twice";
      EXPECT_EQ(program.value(node.outputs[0]).role, Role::kWeight);
    }
    EXPECT_EQ(cast.size(), 3 * 4 + 2U) << program.name();
  }
  for (const ParameterGradient& gradient : family.gradients[0])
    EXPECT_EQ(family.programs[0].type(gradient.gradient).dtype, DType::kF32);
  for (const Parameter& parameter : family.state->parameters()) {
    EXPECT_FALSE(parameter.rest.valid());
    const Storage& storage = family.state->storage(parameter.storage);
    EXPECT_EQ(storage.type.dtype, DType::kF32) << parameter.name;
    EXPECT_EQ(storage.role, is_product_weight(parameter) ? Role::kMasterWeight : Role::kWeight)
        << parameter.name;
  }
}

int64_t weight_casts(const Program& program) {
  return std::count_if(program.nodes().begin(), program.nodes().end(), [&](const Node& node) {
    return node.kind == OpKind::kCast && program.value(node.inputs[0]).storage.valid();
  });
}

// A layer that is used twice has one cast of each of its weights.
TEST(MixedPrecision, CastsAWeightOfTwoReadersOnce) {
  const ProgramFamily family = build(SharedLayer(true), fp16_options());
  for (const Program& program : family.programs)
    EXPECT_EQ(weight_casts(program), 3) << "query, key with value, and head, in " << program.name();
}

TEST(MixedPrecision, CastsOnceAStepUnderAccumulationAndRecompute) {
  const ProgramFamily split = build(fp16_options(3));
  EXPECT_EQ(weight_casts(split.program(split.find(ProgramKind::kMicroBatchFirst))), 14);
  EXPECT_EQ(weight_casts(split.program(split.find(ProgramKind::kMicroBatchNext))), 0)
      << "the first micro-batch's are kept";
  int64_t kept = 0;
  for (const Storage& storage : split.state->storages()) kept += storage.type.dtype == DType::kF16 ? 1 : 0;
  EXPECT_EQ(kept, 14);
  StepOptions options = fp16_options(3);
  options.accumulation_order = AccumulationOrder::kLayer;
  options.recompute_every_n_layers = 1;
  const ProgramFamily whole = build(options);
  EXPECT_EQ(weight_casts(whole.programs[0]), 14);
  for (const Storage& storage : whole.state->storages()) EXPECT_NE(storage.type.dtype, DType::kF16);
}

TEST(MixedPrecision, AnEvaluationRunKeepsHalvesOnly) {
  for (const auto& [precision, dtype, full] : {std::tuple{Precision::kFloat16, DType::kF16, true},
                                               std::tuple{Precision::kFloat16, DType::kF16, false},
                                               std::tuple{Precision::kBfloat16, DType::kBF16, true},
                                               std::tuple{Precision::kBfloat16, DType::kBF16, false}}) {
    StepOptions options;
    if (full) {
      options.evaluation_precision = precision;
    } else {
      options.precision = precision;
    }
    const ProgramFamily family = build(small_bert(), options, RunKind::kEvaluate);
    EXPECT_EQ(weight_casts(family.programs[0]), 0);
    for (const Parameter& parameter : family.state->parameters()) {
      EXPECT_EQ(family.state->storage(parameter.storage).type.dtype,
                is_product_weight(parameter) || (full && parameter.shape.size() == 2) ? dtype : DType::kF32)
          << parameter.name;
      EXPECT_FALSE(parameter.rest.valid());
    }
  }
}

TEST(MixedPrecision, EvaluationInHalfPrecisionLeavesTrainingAlone) {
  StepOptions options;
  options.evaluation_precision = Precision::kBfloat16;
  const ProgramFamily family = build(options);
  EXPECT_EQ(weight_casts(family.programs[0]), 0);
  EXPECT_EQ(weight_casts(family.program(family.find(ProgramKind::kEvaluate))), 14);
  for (const Node& node : family.programs[0].nodes()) {
    for (const ValueId output : node.outputs) EXPECT_NE(family.programs[0].type(output).dtype, DType::kBF16);
  }
}

// Matrices and tables are 2 bytes an element and no more; vectors are fp32.
TEST(MixedPrecision, WithoutMastersKeepsBfloat16Alone) {
  StepOptions options;
  options.precision = Precision::kBfloat16;
  options.master_weights = MasterWeights::kNone;
  const ProgramFamily family = build(options);
  for (const Parameter& parameter : family.state->parameters()) {
    const bool is_matrix = parameter.shape.size() == 2;
    const Storage& storage = family.state->storage(parameter.storage);
    EXPECT_EQ(storage.type.dtype, is_matrix ? DType::kBF16 : DType::kF32) << parameter.name;
    EXPECT_EQ(storage.role, Role::kWeight) << parameter.name;
    EXPECT_FALSE(parameter.rest.valid()) << parameter.name;
  }
  for (const Storage& storage : family.state->storages()) EXPECT_NE(storage.role, Role::kMasterWeight);
  for (const Program& program : family.programs) EXPECT_EQ(weight_casts(program), 0) << program.name();
  for (const ParameterGradient& gradient : family.gradients[0])
    EXPECT_EQ(family.programs[0].type(gradient.gradient).dtype, DType::kF32);
  EXPECT_EQ(count(family.programs[0], OpKind::kAdamW), 2) << "rounded and fp32 weights";
}

TEST(LossScale, ScalesTheLossAndWaitsForOverflow) {
  for (const int64_t micro_batches : {1, 2}) {
    const ProgramFamily family = build(fp16_options(micro_batches));
    const Program& program =
        micro_batches == 1 ? family.programs[0] : family.program(family.find(ProgramKind::kUpdate));
    EXPECT_EQ(count(program, OpKind::kFoundInf), 1);
    EXPECT_EQ(count(program, OpKind::kLossScaleUpdate), 1);
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kAdamW) continue;
      ASSERT_TRUE(node.inputs[3].valid());
      EXPECT_EQ(program.value(node.inputs[3]).storage, family.loss_scale.found_inf);
    }
    for (const Node& node : family.programs[0].nodes()) {
      if (node.kind != OpKind::kCrossEntropyGrad) continue;
      ASSERT_EQ(node.inputs.size(), 6U);
      EXPECT_EQ(family.programs[0].value(node.inputs[5]).storage, family.loss_scale.scale);
    }
  }
  EXPECT_FALSE(build(StepOptions{}).loss_scale.scale.valid());
}

TEST(LossScale, AFixedOneStays) {
  StepOptions options = fp16_options();
  options.loss_scale.fixed = 128;
  ProgramFamily family = build(options);
  EXPECT_EQ(count(family.programs[0], OpKind::kLossScaleUpdate), 0);
  EXPECT_EQ(count(family.programs[0], OpKind::kFoundInf), 1) << "an overflow is skipped all the same";
  options.max_grad_norm = 0;
  family = build(options);
  EXPECT_EQ(count(family.programs[0], OpKind::kSumOfSquares), 1) << "an overflow shows in it";
  EXPECT_EQ(count(family.programs[0], OpKind::kClipCoefficient), 0) << "nothing is clipped";
  options.update_in_backward = true;
  family = build(options);
  EXPECT_EQ(count(family.programs[0], OpKind::kFoundInf), 0) << "updates wait for nothing";
  EXPECT_EQ(count(family.programs[0], OpKind::kReciprocal), 1);
}

TEST(Freeze, LeavesNoTraceOfWhatIsNotTrained) {
  StepOptions options;
  options.freeze = {"embeddings", R"(layer\.[01]\.)"};
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  std::set<int32_t> with_backward;
  for (const Node& node : program.nodes()) {
    if (node.region.phase == Phase::kBackward || node.region.phase == Phase::kRecompute)
      with_backward.insert(node.region.layer);
  }
  EXPECT_EQ(with_backward, (std::set<int32_t>{-1, 2})) << "head and last layer";
  for (const Storage& storage : family.state->storages()) {
    if (storage.role != Role::kOptimizerState) continue;
    EXPECT_EQ(storage.name.find("embeddings"), std::string::npos) << storage.name;
    EXPECT_EQ(storage.name.find("layer.0"), std::string::npos) << storage.name;
  }
  for (const ParameterGradient& gradient : family.gradients[0]) {
    for (const ParameterId id : family.state->parameters_of(gradient.storage))
      EXPECT_TRUE(family.state->parameter(id).trainable) << family.state->parameter(id).name;
  }
}

// One of a kernel's parameters frozen, the others not: under accumulation each gradient is summed, or not,
// alone.
TEST(Freeze, TakesSingleParametersOfAKernel) {
  StepOptions options;
  options.freeze = {R"(LayerNorm\.weight$)", R"(output\.dense\.bias$)"};
  options.gradient_accumulation_steps = 2;
  const ProgramFamily family = build(options);
  for (const ParameterGradient& gradient : family.gradients[0]) {
    const std::string& name = family.state->storage(gradient.storage).name;
    EXPECT_FALSE(name.ends_with("LayerNorm.weight") || name.ends_with("output.dense.bias")) << name;
  }
}

TEST(Freeze, LeavesABfloat16WeightWithoutItsRest) {
  StepOptions options;
  options.precision = Precision::kBfloat16;
  options.freeze = {"embeddings", R"(layer\.[01]\.)"};
  const ProgramFamily family = build(options);
  for (const Parameter& parameter : family.state->parameters()) {
    const Storage& storage = family.state->storage(parameter.storage);
    EXPECT_EQ(storage.type.dtype, is_product_weight(parameter) ? DType::kBF16 : DType::kF32)
        << parameter.name;
    EXPECT_EQ(parameter.rest.valid(), is_product_weight(parameter) && parameter.trainable) << parameter.name;
  }
  for (const Storage& storage : family.state->storages()) {
    EXPECT_FALSE(storage.name.ends_with(".rest") && storage.name.find("layer.0.") != std::string::npos)
        << storage.name;
  }
}

TEST(Accumulate, MakesTheProgramsOfItsOrder) {
  const auto names = [](const ProgramFamily& family) {
    std::vector<std::string> found;
    for (const Program& program : family.programs) found.emplace_back(program.name());
    return found;
  };
  StepOptions options;
  EXPECT_EQ(names(build(options)), (std::vector<std::string>{"train_step", "evaluate"}));
  options.gradient_accumulation_steps = 3;
  const ProgramFamily split = build(options);
  EXPECT_EQ(names(split),
            (std::vector<std::string>{"micro_batch_first", "micro_batch_next", "update", "evaluate"}));
  EXPECT_EQ(split.programs[0].nodes().size(), split.programs[1].nodes().size())
      << "sums go into products and kernels";
  options.accumulation_order = AccumulationOrder::kLayer;
  const ProgramFamily whole = build(options);
  EXPECT_EQ(names(whole), (std::vector<std::string>{"train_step", "evaluate"}));
  EXPECT_EQ(whole.train_batches.size(), 3U);
  EXPECT_EQ(whole.programs[0].counts().size(), 3 * kBatchAxes.size());
  EXPECT_EQ(count(whole.programs[0], OpKind::kAttention), 9);
}

TEST(Update, FusedUpdatesAreOneNodeAKind) {
  StepOptions options;
  EXPECT_EQ(count(build(options).programs[0], OpKind::kAdamW), 1);
  options.precision = Precision::kBfloat16;
  EXPECT_EQ(count(build(options).programs[0], OpKind::kAdamW), 2) << "split masters and fp32 weights";
  options.skip_passes = {"fuse_update"};
  const ProgramFamily family = build(options);
  EXPECT_EQ(count(family.programs[0], OpKind::kAdamW), static_cast<int64_t>(family.gradients[0].size()));
  EXPECT_EQ(count(family.programs[0], OpKind::kClipCoefficient), 1);
}

TEST(Update, InBackwardStandsRightBehindItsGradient) {
  StepOptions options;
  options.max_grad_norm = 0;
  options.update_in_backward = true;
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  EXPECT_FALSE(family.grad_norm.valid());
  EXPECT_EQ(count(program, OpKind::kClipCoefficient), 0);
  size_t first = 0;
  while (program.nodes()[first].kind != OpKind::kAdamW) ++first;
  EXPECT_LT(first, program.nodes().size() / 2 + program.nodes().size() / 8)
      << "the head's update does not wait for the end";
}

TEST(Options, ThatDoNotGoTogetherNameTheirFlags) {
  const auto expect_error = [](const StepOptions& options, const std::string& flag,
                               const std::string& other) {
    try {
      build(options);
      FAIL() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find(flag), 0U) << error.what();
      EXPECT_NE(std::string(error.what()).find(other), std::string::npos) << error.what();
    }
  };
  StepOptions options;
  options.update_in_backward = true;
  expect_error(options, "[--update_in_backward]", "--max_grad_norm");
  options.max_grad_norm = 0;
  options.gradient_accumulation_steps = 2;
  expect_error(options, "[--update_in_backward]", "--accumulation_order");
  options = fp16_options();
  options.max_grad_norm = 0;
  options.update_in_backward = true;
  expect_error(options, "[--update_in_backward]", "--loss_scale");
  options = {};
  options.precision = Precision::kBfloat16;
  options.evaluation_precision = Precision::kFloat16;
  expect_error(options, "[--fp16_full_eval]", "--bf16_full_eval");
  options = {};
  options.master_weights = MasterWeights::kNone;
  expect_error(options, "[--master_weights none]", "--bf16");
  options.precision = Precision::kFloat16;
  expect_error(options, "[--master_weights none]", "--fp16");
  options = {};
  options.freeze = {"decoder"};
  expect_error(options, "[--freeze decoder]", "got one that none has");
  options.freeze = {"("};
  expect_error(options, "[--freeze (]", "regular expression");
  options.freeze = {"(.*)*(.*)*[XY]$"};
  expect_error(options, "[--freeze (.*)*(.*)*[XY]$]", "decided in 100000 steps");
  options.freeze = {std::string(100'000, '(')};
  expect_error(options, "[--freeze ((((", "longer than");
  options.freeze = {"."};
  expect_error(options, "[--freeze]", "left to train");
  options = {};
  options.skip_passes = {"nothing"};
  expect_error(options, "[--skip_pass]", "nothing");
}

TEST(PassList, NamesAreUniqueAndInTheirOrder) {
  std::vector<std::string> names;
  for (const Pass& pass : pass_list()) names.push_back(pass.name);
  EXPECT_EQ(names, (std::vector<std::string>{"lora",
                                             "freeze",
                                             "neftune",
                                             "gather_early",
                                             "fuse_attention",
                                             "fuse_norm_rotary",
                                             "fuse_residual_norm",
                                             "fuse_gated_activation",
                                             "fuse_bias_activation",
                                             "fuse_bias",
                                             "fuse_vocabulary_loss",
                                             "mixed_precision",
                                             "loss_scale",
                                             "backward",
                                             "fuse_vocabulary_gradient",
                                             "fuse_added_product",
                                             "recompute",
                                             "rematerialize",
                                             "shard_weights",
                                             "accumulate",
                                             "data_parallel",
                                             "replicas",
                                             "local_sgd",
                                             "gather_weights",
                                             "update",
                                             "update_in_backward",
                                             "fuse_update",
                                             "gather_updated"}));
  std::vector<PassRecord> records;
  StepOptions options;
  options.skip_passes = {"fuse", "rematerialize"};  // a group and a pass
  build_programs(small_bert(), RunKind::kTrain, kCapacity, kCapacity, options, &records);
  std::vector<std::string> ran;
  for (const PassRecord& record : records) ran.push_back(record.name);
  std::erase_if(names, [](const std::string& name) {
    return name == "rematerialize" || (name.starts_with("fuse_") && name != "fuse_update");
  });
  EXPECT_EQ(ran, names);
}

TEST(DumpProgram, WritesEveryProgramAfterEveryPass) {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("shoehorn_dump_{}", std::random_device()());
  StepOptions options;
  options.gradient_accumulation_steps = 2;
  options.dump_directory = directory.string();
  build(options);
  for (const char* name :
       {"00-capture.train_step.txt", "05-fuse_attention.train_step.txt", "14-backward.evaluate.txt",
        "20-accumulate.micro_batch_next.txt", "27-fuse_update.update.txt"}) {
    std::ifstream file(directory / name);
    std::string line;
    EXPECT_TRUE(std::getline(file, line)) << name;
    EXPECT_EQ(line.find("program "), 0U) << line;
  }
  std::filesystem::remove_all(directory);
}

TEST(RunKinds, AnEvaluationRunHasNothingElse) {
  const ProgramFamily family = build(small_bert(), {}, RunKind::kEvaluate);
  ASSERT_EQ(family.programs.size(), 1U);
  EXPECT_EQ(family.programs[0].kind(), ProgramKind::kEvaluate);
  EXPECT_EQ(count(family.programs[0], OpKind::kDropout), 0);
  for (const Storage& storage : family.state->storages())
    EXPECT_NE(storage.role, Role::kOptimizerState) << storage.name;
}

}  // namespace
}  // namespace shoehorn
