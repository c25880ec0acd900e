// What the pass `lora` does to a BERT of two layers, alone and with the passes behind it.
#include "passes/lora.h"
#include "passes/module_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/error_testing.h"
#include "model/layers.h"
#include "passes/passes_testing.h"
#include "tasks/single_label_classification.h"

namespace shoehorn {
namespace {

using test_support::count;
constexpr int64_t kHidden = 12;

BertForSequenceClassification bert(float dropout = 0.1F) {
  return test_support::small_bert(2, dropout);
}

StepOptions with(LoraOptions lora) {
  StepOptions options;
  options.lora = std::move(lora);
  return options;
}

ProgramFamily built(const StepOptions& options, RunKind kind = RunKind::kTrain) {
  return test_support::build(bert(), options, kind);
}

std::set<std::string> trained(const ProgramFamily& family) {
  std::set<std::string> names;
  for (const Parameter& parameter : family.state->parameters()) {
    if (parameter.trainable) names.insert(parameter.name);
  }
  return names;
}

std::string refusal(const StepOptions& options) {
  return refusal_of([&] { built(options); });
}

class ToyConv1d final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    const Tensor x = builder.embedding(embedding_table(builder, "table", 50, kHidden, 0.1F),
                                       builder.input(BatchColumn::kInputIds));
    return linear_layer(builder, "head", builder.last_tokens(conv1d_layer(builder, "c_fc", x, 20, 0.1F)), 2,
                        0.1F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 16; }
  int64_t vocab_size() const override { return 50; }

 private:
  SingleLabelClassification task_{2};
};

TEST(Lora, IsOffUnlessARankIsGiven) {
  const ProgramFamily family = built({});
  EXPECT_TRUE(family.adapters.empty());
  EXPECT_TRUE(std::none_of(family.state->parameters().begin(), family.state->parameters().end(),
                           [](const Parameter& parameter) { return parameter.is_adapter; }));
}

TEST(Lora, TrainsQueryAndValueAndTheClassifierUnlessToldOtherwise) {
  const ProgramFamily family = built(with({.rank = 4}));
  const std::string self = ".attention.self.";
  std::set<std::string> expected = {"classifier.weight", "classifier.bias"};
  for (const std::string layer : {"bert.encoder.layer.0", "bert.encoder.layer.1"}) {
    for (const std::string part : {"query", "value"}) {
      expected.insert(layer + self + part + ".lora_A.weight");
      expected.insert(layer + self + part + ".lora_B.weight");
    }
  }
  EXPECT_EQ(trained(family), expected);
  EXPECT_EQ(family.adapters.list.size(), 4U);
  EXPECT_EQ(family.adapters.scale, 2);
  EXPECT_EQ(family.adapters.target_modules, (std::vector<std::string>{"query", "value"}));
  EXPECT_EQ(family.adapters.modules_to_save, std::vector<std::string>{"classifier"});
  const StateTable& state = *family.state;
  const LowRankAdapter& first = family.adapters.list.front();
  EXPECT_EQ(state.parameter(first.weight).name, "bert.encoder.layer.0.attention.self.query.weight");
  EXPECT_EQ(state.parameter(first.a).shape, (std::vector<int64_t>{4, kHidden}));
  EXPECT_EQ(state.parameter(first.b).shape, (std::vector<int64_t>{kHidden, 4}));
  EXPECT_EQ(state.parameter(first.a).initializer.kind, Initializer::Kind::kUniform);
  EXPECT_FLOAT_EQ(state.parameter(first.a).initializer.bound, 1 / std::sqrt(static_cast<float>(kHidden)));
  EXPECT_EQ(state.parameter(first.b).initializer.kind, Initializer::Kind::kZeros);
}

// As PEFT has them for the architecture.
TEST(Lora, TargetsAreTheModelsUnlessToldOtherwise) {
  const auto source = test_support::small_distilbert();
  const Model& model = *source;
  const AdapterSet adapters = test_support::build(model, with({.rank = 4})).adapters;
  EXPECT_EQ(adapters.target_modules, (std::vector<std::string>{"q_lin", "v_lin"}));
  EXPECT_EQ(adapters.modules_to_save, (std::vector<std::string>{"pre_classifier", "classifier"}));
  EXPECT_EQ(test_support::build(model, with({.rank = 4, .targets = {"out_lin"}})).adapters.target_modules,
            (std::vector<std::string>{"out_lin"}));
}

// A weight of [inputs, outputs] has adapters of the layer's widths, as PEFT gives Conv1D.
TEST(Lora, AdaptsWeightsThatLieTheOtherWayRound) {
  const ToyConv1d model;
  const ProgramFamily family = test_support::build(model, with({.rank = 4, .targets = {"all-linear"}}));
  ASSERT_EQ(family.adapters.list.size(), 1U);
  const LowRankAdapter& adapter = family.adapters.list[0];
  const StateTable& state = *family.state;
  EXPECT_TRUE(adapter.is_transposed);
  EXPECT_EQ(state.parameter(adapter.weight).shape, (std::vector<int64_t>{kHidden, 20}));
  EXPECT_EQ(state.parameter(adapter.a).shape, (std::vector<int64_t>{4, kHidden}));
  EXPECT_EQ(state.parameter(adapter.b).shape, (std::vector<int64_t>{20, 4}));
  EXPECT_FLOAT_EQ(state.parameter(adapter.a).initializer.bound, 1 / std::sqrt(static_cast<float>(kHidden)));
}

// Every storage with a gradient holds trained parameters only, and no other has optimizer state.
TEST(Lora, WhatIsFrozenHasNoGradientAndNoOptimizerState) {
  const ProgramFamily family = built(with({.rank = 4}));
  const StateTable& state = *family.state;
  std::set<std::string> with_gradient;
  for (const ParameterGradient& gradient : family.gradients[0]) {
    for (const ParameterId id : state.parameters_of(gradient.storage))
      with_gradient.insert(state.parameter(id).name);
  }
  EXPECT_EQ(with_gradient, trained(family));
  int64_t states = 0;
  int64_t trained_elements = 0;
  for (const Storage& storage : state.storages()) {
    if (storage.role == Role::kOptimizerState) states += storage.type.shape.elements();
  }
  for (const Parameter& parameter : state.parameters())
    trained_elements += parameter.trainable ? parameter.global_elements() : 0;
  EXPECT_EQ(states, 2 * trained_elements);
}

// The backward of a frozen weight's product makes the gradient of its input alone: of a layer's twelve
// products in a full backward six are left, and those of the embeddings' side are gone in layer 0.
TEST(Lora, NothingIsComputedOrKeptForFrozenWeights) {
  const ProgramFamily full = built({});
  const ProgramFamily adapted = built(with({.rank = 4}));
  const auto reads_in_backward = [](const Program& program, OpKind producer) {
    int64_t found = 0;
    for (const Node& node : program.nodes()) {
      if (node.region.phase == Phase::kForward) continue;
      for (const ValueId input : node.inputs) {
        if (!input.valid() || !program.value(input).producer.valid()) continue;
        const Node& maker = program.node(program.value(input).producer);
        found += maker.kind == producer && maker.region.phase == Phase::kForward ? 1 : 0;
      }
    }
    return found;
  };
  // The context of attention is read by attention's own backward in both; by the output layer's weight only
  // in the full one, where in the last layer it reads gathered rows.
  EXPECT_EQ(reads_in_backward(full.programs[0], OpKind::kAttention),
            reads_in_backward(adapted.programs[0], OpKind::kAttention) + 1);
  EXPECT_EQ(count(adapted.programs[0], OpKind::kEmbeddingGrad), 0);
  EXPECT_EQ(count(adapted.programs[0], OpKind::kLayerNormGrad), 0) << "of the embeddings' norm";
}

TEST(Lora, QueryKeyAndValueStayOneProduct) {
  const ProgramFamily family = built(with({.rank = 4}));
  for (const Program& program : family.programs) {
    EXPECT_EQ(count(program, OpKind::kAttention), 2) << program.name();
    EXPECT_EQ(count(program, OpKind::kAddColumns), 4);
    EXPECT_EQ(count(program, OpKind::kBiasAdd, Phase::kForward), 0);
    EXPECT_EQ(count(program, OpKind::kAdd, Phase::kForward), 0);
    EXPECT_EQ(count(program, OpKind::kMatmul, Phase::kForward), 2 * (4 + 2 * 2) + 2);
    std::set<int64_t> offsets;
    for (const Node& node : program.nodes()) {
      if (node.kind == OpKind::kAddColumns)
        offsets.insert(std::get<ColumnsAttributes>(node.attributes).offset);
    }
    EXPECT_EQ(offsets, (std::set<int64_t>{0, 2 * kHidden})) << "of query and of value";
  }
}

TEST(Lora, OtherChainsStayFusedToo) {
  const ProgramFamily family = built(with({.rank = 4, .targets = {"all-linear"}}));
  EXPECT_EQ(family.adapters.list.size(), 2 * 6 + 1U) << "six a layer, and the pooler";
  for (const Program& program : family.programs) {
    EXPECT_EQ(count(program, OpKind::kAttention), 2) << program.name();
    EXPECT_EQ(count(program, OpKind::kBiasDropoutResidualLayerNorm), 4);
    EXPECT_EQ(count(program, OpKind::kBiasActivation, Phase::kForward), 3);
  }
}

// 8 / 8 is no factor, and no node.
TEST(Lora, AScaleOfOneCostsNothing) {
  EXPECT_EQ(count(built(with({.rank = 8})).programs[0], OpKind::kScale), 0);
  EXPECT_EQ(count(built(with({.rank = 4})).programs[0], OpKind::kScale, Phase::kForward), 4);
}

TEST(Lora, DropoutIsOfTrainingAndEachAdapterHasItsOwnMask) {
  const ProgramFamily family =
      built(with({.rank = 4, .dropout = 0.25F, .targets = {"query", "value", "pooler.dense"}}));
  EXPECT_EQ(count(family.program(family.find(ProgramKind::kEvaluate)), OpKind::kDropout), 0);
  std::set<uint32_t> streams;
  int64_t adapters = 0;
  for (const Node& node : family.programs[0].nodes()) {
    if (node.kind != OpKind::kDropout || node.region.phase != Phase::kForward) continue;
    const Dropout& dropout = std::get<DropoutAttributes>(node.attributes).dropout;
    streams.insert(dropout.stream_id);
    adapters += dropout.p == 0.25F ? 1 : 0;
  }
  EXPECT_EQ(adapters, 5);
  EXPECT_EQ(streams.size(), 5U + 2U) << "with those of the embeddings and of the classifier";
}

TEST(Lora, NamesMatchAsInPeft) {
  EXPECT_TRUE(names_module("bert.encoder.layer.0.attention.self.query", "query"));
  EXPECT_TRUE(names_module("bert.encoder.layer.0.attention.self.query", "self.query"));
  EXPECT_TRUE(names_module("query", "query"));
  EXPECT_FALSE(names_module("bert.my_query", "query"));
  EXPECT_FALSE(names_module("bert.query.dense", "query"));
  EXPECT_TRUE(names_module_of("bert.pooler.dense.weight", "pooler"));
  EXPECT_TRUE(names_module_of("bert.pooler.dense.weight", "pooler.dense"));
  EXPECT_TRUE(names_module_of("classifier.bias", "classifier"));
  EXPECT_FALSE(names_module_of("bert.pooler.dense.weight", "weight"));
  EXPECT_FALSE(names_module_of("bert.pooler.dense.weight", "er"));
  EXPECT_FALSE(names_module_of("weight", "weight"));
}

// PEFT's rule: what is saved whole has no adapter.
TEST(Lora, SavedModulesAreTrainedWhole) {
  const ProgramFamily family =
      built(with({.rank = 4, .targets = {"all-linear"}, .modules_to_save = {"pooler", "classifier"}}));
  const std::set<std::string> names = trained(family);
  EXPECT_TRUE(names.contains("bert.pooler.dense.bias"));
  EXPECT_TRUE(names.contains("classifier.weight"));
  EXPECT_FALSE(names.contains("bert.pooler.dense.lora_A.weight"));
  const ProgramFamily nothing = built(with({.rank = 4, .modules_to_save = {"none"}}));
  EXPECT_FALSE(trained(nothing).contains("classifier.weight"));
  EXPECT_TRUE(nothing.adapters.saved.empty());
}

std::unique_ptr<Model> small_decoder(const char* type, bool ties) {
  return model_from_json({{"model_type", type},
                          {"vocab_size", 50},
                          {"hidden_size", kHidden},
                          {"num_hidden_layers", 1},
                          {"num_attention_heads", 3},
                          {"max_position_embeddings", 16},
                          {"tie_word_embeddings", ties}},
                         type, Head::kCausalLanguageModel);
}

// PEFT ties it where modules_to_save has a name that it knows, which GPT-2's table has not.
TEST(Lora, ATableThatIsTheHeadIsSavedByEitherNameAndHasBoth) {
  using Names = std::vector<std::string>;
  for (const auto& [type, asked, both, weight] :
       {std::tuple<const char*, Names, Names, const char*>{
            "llama", {"embed_tokens"}, {"embed_tokens", "lm_head"}, "model.embed_tokens.weight"},
        {"llama", {"lm_head"}, {"lm_head", "embed_tokens"}, "model.embed_tokens.weight"},
        {"llama",
         {"lm_head", "model.embed_tokens"},
         {"lm_head", "model.embed_tokens"},
         "model.embed_tokens.weight"},
        {"gpt2", {"wte"}, {"wte", "lm_head"}, "transformer.wte.weight"}}) {
    SCOPED_TRACE(fmt::format("{}: {}", type, fmt::join(asked, ", ")));
    const ProgramFamily family =
        test_support::build(*small_decoder(type, true), with({.rank = 4, .modules_to_save = asked}));
    EXPECT_EQ(family.adapters.modules_to_save, both);
    EXPECT_TRUE(family.adapters.ensure_weight_tying);
    ASSERT_EQ(family.adapters.saved.size(), 1U);
    EXPECT_EQ(family.state->parameter(family.adapters.saved[0]).name, weight);
    EXPECT_TRUE(trained(family).contains(weight));
  }
  for (const bool ties : {true, false}) {
    const AdapterSet none =
        test_support::build(*small_decoder("llama", ties), with({.rank = 4, .modules_to_save = {"none"}}))
            .adapters;
    EXPECT_FALSE(none.ensure_weight_tying);
    EXPECT_TRUE(none.modules_to_save.empty());
  }
  for (const char* module : {"embed_tokens", "lm_head"}) {
    const AdapterSet apart =
        test_support::build(*small_decoder("llama", false), with({.rank = 4, .modules_to_save = {module}}))
            .adapters;
    EXPECT_FALSE(apart.ensure_weight_tying);
    EXPECT_EQ(apart.modules_to_save, Names{module});
    EXPECT_EQ(apart.saved.size(), 1U);
  }
}

TEST(Lora, PatternsOfFreezeSeeTheAdapters) {
  StepOptions options = with({.rank = 4});
  options.freeze = {R"(layer\.0\.)"};
  for (const std::string& name : trained(built(options))) EXPECT_FALSE(contains(name, "layer.0.")) << name;
}

TEST(Lora, WeightDecayIsThatOfOtherWeights) {
  StepOptions options = with({.rank = 4});
  options.optimizer.weight_decay = 0.5F;
  const ProgramFamily family = built(options);
  for (const Parameter& parameter : family.state->parameters()) {
    if (parameter.is_adapter) {
      EXPECT_EQ(parameter.weight_decay, 0.5F) << parameter.name;
    }
  }
}

TEST(Lora, AnEvaluationRunHasThemToo) {
  const ProgramFamily family = built(with({.rank = 4}), RunKind::kEvaluate);
  EXPECT_EQ(family.programs.size(), 1U);
  EXPECT_EQ(family.adapters.list.size(), 4U);
  EXPECT_EQ(count(family.programs[0], OpKind::kAddColumns), 4);
}

TEST(Lora, MistakesAreNamed) {
  EXPECT_TRUE(contains(refusal(with({.rank = -1})), "[lora_rank]"));
  EXPECT_TRUE(contains(refusal(with({.rank = 4, .alpha = 0})), "[lora_alpha]"));
  EXPECT_TRUE(contains(refusal(with({.rank = 4, .dropout = 1})), "[lora_dropout]"));
  const std::string typo = refusal(with({.rank = 4, .targets = {"value", "qeury"}}));
  EXPECT_TRUE(contains(typo, "[lora_target qeury]") && contains(typo, "did you mean query?")) << typo;
  const std::string head = refusal(with({.rank = 4, .targets = {"classifier"}}));
  EXPECT_TRUE(contains(head, "[lora_target classifier]") && contains(head, "makes the logits")) << head;
  EXPECT_TRUE(
      contains(refusal(with({.rank = 4, .targets = {"word_embeddings"}})), "[lora_target word_embeddings]"));
  EXPECT_TRUE(
      contains(refusal(with({.rank = 4, .modules_to_save = {"classifer"}})), "did you mean classifier?"));
}

}  // namespace
}  // namespace shoehorn
