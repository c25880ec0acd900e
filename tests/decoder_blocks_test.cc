// The blocks of today's decoders through the whole pipeline: rotary embedding, gated feed-forwards, norms of heads,
// fused products with [inputs, outputs] weights, and a classifier of last tokens. Fused or not, split or not, in any
// precision they are one function.
#include <gtest/gtest.h>

#include <algorithm>

#include "decoder_training.h"
#include "model/layers.h"
#include "program_nodes.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr int64_t kBlockHeads = 4;
constexpr int64_t kBlockHeadSize = 6;
constexpr int64_t kInner = 40;
constexpr int32_t kLayers = 2;

enum class DecoderFamily : uint8_t { kLlama, kQwen3, kGpt2 };

std::string family_name(DecoderFamily family) {
  if (family == DecoderFamily::kGpt2) return "gpt2";
  return family == DecoderFamily::kLlama ? "llama" : "qwen3";
}

RotaryFrequencies frequencies() {
  return {{1.0F, 0.3F, 0.05F}, 1.25F};
}

Tensor rotary_attention(ModelBuilder& builder, const std::string& prefix, Tensor x, Tensor table,
                        bool has_head_norms) {
  constexpr int64_t kKeyValueHeads = 2;
  const auto linear = [&](const char* name, int64_t heads) {
    return linear_layer_without_bias(builder, prefix + name, x, heads * kBlockHeadSize, 0.2F);
  };
  const auto turned = [&](const char* name, int64_t heads) {
    Tensor made = linear(name, heads);
    if (has_head_norms) {
      const Tensor gamma = builder.parameter(prefix + name + "_norm.weight", {kBlockHeadSize},
                                             {Initializer::Kind::kOnes, 0, -1});
      made = builder.rms_norm(made, gamma, 1e-5F);
    }
    return builder.rotate(made, table, heads);
  };
  const Tensor q = turned("query", kBlockHeads);
  const Tensor k = turned("key", kKeyValueHeads);
  return builder.attention(q, k, linear("value", kKeyValueHeads),
                           {.heads = kBlockHeads,
                            .key_value_heads = kKeyValueHeads,
                            .mask = AttentionMask::causal(),
                            .dropout = 0.1F});
}

Tensor rotary_layer(ModelBuilder& builder, int32_t layer, Tensor x, Tensor table, bool has_head_norms) {
  const std::string prefix = fmt::format("layer.{}.", layer);
  const auto linear = [&](const char* name, Tensor input, int64_t outputs) {
    return linear_layer_without_bias(builder, prefix + name, input, outputs, 0.2F);
  };
  builder.set_region(layer, Component::kAttention);
  const Tensor read = rms_norm_layer(builder, prefix + "attention_norm", x, 1e-5F);
  x = builder.add(x,
                  linear("output", rotary_attention(builder, prefix, read, table, has_head_norms), kHidden));
  builder.set_region(layer, Component::kFeedForward);
  const Tensor y = rms_norm_layer(builder, prefix + "feed_forward_norm", x, 1e-5F);
  const Tensor gate = builder.activation(linear("gate", y, kInner), Activation::kSilu);
  return builder.add(x, linear("down", builder.multiply(gate, linear("up", y, kInner)), kHidden));
}

Tensor gpt2_layer(ModelBuilder& builder, int32_t layer, Tensor x) {
  const std::string prefix = fmt::format("layer.{}.", layer);
  const auto conv1d = [&](const char* name, Tensor input, int64_t outputs) {
    return conv1d_layer(builder, prefix + name, input, outputs, 0.2F);
  };
  builder.set_region(layer, Component::kAttention);
  const Tensor qkv = conv1d("c_attn", layer_norm_layer(builder, prefix + "norm_1", x, 1e-5F), 3 * kHidden);
  const auto part = [&](int64_t i) { return builder.columns(qkv, i * kHidden, kHidden); };
  const Tensor context = builder.attention(
      part(0), part(1), part(2), {.heads = kBlockHeads, .mask = AttentionMask::causal(), .dropout = 0.1F});
  x = builder.add(builder.token_dropout(conv1d("c_proj", context, kHidden), 0.1F), x);
  builder.set_region(layer, Component::kFeedForward);
  const Tensor inner = builder.activation(
      conv1d("c_fc", layer_norm_layer(builder, prefix + "norm_2", x, 1e-5F), kInner), Activation::kGeluTanh);
  return builder.add(builder.token_dropout(conv1d("c_down", inner, kHidden), 0.1F), x);
}

ToyModel model_of(DecoderFamily family) {
  return ToyModel([family](ModelBuilder& builder) {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(embedding_table(builder, "table", kVocabulary, kHidden, 0.5F),
                                 builder.input(BatchColumn::kInputIds));
    if (family == DecoderFamily::kGpt2) {
      for (int32_t layer = 0; layer < kLayers; ++layer) x = gpt2_layer(builder, layer, x);
    } else {
      const Tensor table = builder.rotary_table(frequencies());
      for (int32_t layer = 0; layer < kLayers; ++layer)
        x = rotary_layer(builder, layer, x, table, family == DecoderFamily::kQwen3);
    }
    builder.set_region(-1, Component::kHead);
    x = rms_norm_layer(builder, "norm", x, 1e-5F);
    return linear_layer_without_bias(builder, "score", builder.last_tokens(x), 2, 0.2F);
  });
}

// Sums of up to 72 terms, some ten ops deep in each of two layers, forward and backward.
constexpr double kBlockRoundings = 4 * 10 * 8.5;

class DecoderBlocks : public testing::TestWithParam<DecoderFamily> {};

TEST_P(DecoderBlocks, AreFused) {
  const Session session(model_of(GetParam()), session_options({}));
  for (const Program& program : session.family().programs) {
    SCOPED_TRACE(std::string(program.name()));
    EXPECT_EQ(count_forward_nodes(program, OpKind::kAttention), kLayers);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kAttentionScores), 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kTakeColumns), 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kMultiply), 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kRotaryTable), GetParam() == DecoderFamily::kGpt2 ? 0 : 1);
    // q and k in one product are turned in one go.
    EXPECT_EQ(count_forward_nodes(program, OpKind::kRotary),
              GetParam() == DecoderFamily::kLlama ? kLayers : 0);
    // Heads that are normed are turned with that.
    EXPECT_EQ(count_forward_nodes(program, OpKind::kRmsNormRotary),
              GetParam() == DecoderFamily::kQwen3 ? 2 * kLayers : 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kGatedActivation),
              GetParam() == DecoderFamily::kGpt2 ? 0 : kLayers);
    const int64_t products = GetParam() == DecoderFamily::kQwen3   ? 7
                             : GetParam() == DecoderFamily::kLlama ? 5
                                                                   : 4;
    EXPECT_EQ(count_forward_nodes(program, OpKind::kMatmul), products * kLayers + 1);
    // All norms but the first of each layer's two in layer 0 are of sums.
    const bool is_gpt2 = GetParam() == DecoderFamily::kGpt2;
    EXPECT_EQ(count_forward_nodes(program, OpKind::kBiasDropoutResidualLayerNorm),
              is_gpt2 ? 2 * kLayers - 1 : 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kResidualRmsNorm), is_gpt2 ? 1 : 2 * kLayers);
    if (!program.traits().trains) continue;
    EXPECT_EQ(count_nodes(program, OpKind::kRotary, Phase::kBackward),
              count_forward_nodes(program, OpKind::kRotary));
    EXPECT_EQ(count_nodes(program, OpKind::kSpreadColumns, Phase::kBackward), 0);
  }
}

// Fused or not, in one micro-batch or several, with adapters or without: one function and its gradients.
TEST_P(DecoderBlocks, EveryArrangementHasTheSameGradients) {
  const std::vector<Sample> samples = six_samples(3);
  const ToyModel model = model_of(GetParam());
  for (const bool adapts : {false, true}) {
    StepOptions step = gradient_options();
    if (adapts) step.lora = {.rank = 4, .alpha = 6, .dropout = 0.1F, .targets = {"all-linear"}};
    const Gradients expected = gradients_of(model, step, samples, kSixInOneMicroBatch);
    for (const auto& [name, values] : expected.values) {
      const bool is_trained =
          std::any_of(values.begin(), values.end(), [](double value) { return value != 0; });
      EXPECT_EQ(is_trained, !adapts || name.find("lora_") != std::string::npos || name == "score.weight")
          << name;
    }
    for (const char* pass : {"fuse", "fuse_attention", "fuse_residual_norm", "fuse_gated_activation",
                             "gather_early", "rematerialize"}) {
      SCOPED_TRACE(fmt::format("adapters {}, without {}", adapts, pass));
      StepOptions skipping = step;
      skipping.skip_passes = {pass};
      expect_close(gradients_of(model, skipping, samples, kSixInOneMicroBatch), expected, kBlockRoundings);
    }
    for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
      SCOPED_TRACE(fmt::format("adapters {}, accumulation", adapts));
      StepOptions split = step;
      split.gradient_accumulation_steps = 2;
      split.accumulation_order = order;
      expect_close(gradients_of(model, split, samples, {{0, 1, 2, 3}, {4, 5}}), expected, kBlockRoundings);
    }
  }
}

TEST_P(DecoderBlocks, FreezingPartsLeavesTheOthersGradients) {
  const std::vector<Sample> samples = six_samples(3);
  StepOptions step = gradient_options();
  Gradients expected = gradients_of(model_of(GetParam()), step, samples, kSixInOneMicroBatch);
  step.freeze = {R"(layer\.1\.(key|c_attn|up))", R"(layer\.0\.(query|c_fc|gate))"};
  const Gradients found = gradients_of(model_of(GetParam()), step, samples, kSixInOneMicroBatch);
  int64_t frozen = 0;
  for (const auto& [name, values] : found.values) {
    if (std::any_of(values.begin(), values.end(), [](double value) { return value != 0; })) continue;
    ++frozen;
    expected.values.at(name) = values;
  }
  EXPECT_EQ(frozen, GetParam() == DecoderFamily::kQwen3 ? 6 : 4);
  expect_close(found, expected, kBlockRoundings);
}

class DecoderBlocksIn : public testing::TestWithParam<std::tuple<DecoderFamily, Precision>> {
 protected:
  static DecoderFamily family() { return std::get<0>(GetParam()); }
  static StepOptions options() {
    StepOptions step;
    step.precision = std::get<1>(GetParam());
    step.loss_scale.initial = 256;  // no step of these is skipped
    return step;
  }
};

TEST_P(DecoderBlocksIn, ExactPassesChangeNoBit) {
  for (const bool adapts : {false, true}) {
    StepOptions step = options();
    if (adapts) step.lora = {.rank = 4, .dropout = 0.1F, .targets = {"all-linear"}};
    const TrainedDecoder kept = train_decoder(model_of(family()), step, 3, false);
    const auto expect_same = [&](const char* what) {
      const TrainedDecoder other = train_decoder(model_of(family()), step, 3, false);
      EXPECT_EQ(other.losses, kept.losses) << what;
      for (const auto& [name, values] : kept.weights)
        EXPECT_TRUE(other.weights.at(name) == values) << name << " differs with " << what;
    };
    step.skip_passes = {"rematerialize"};
    expect_same("everything kept");
    step.skip_passes.clear();
    step.recompute_every_n_layers = 1;
    expect_same("layers recomputed");
  }
}

// Six samples are learned by heart.
TEST_P(DecoderBlocksIn, Learn) {
  const TrainedDecoder trained = train_decoder(model_of(family()), options(), 20, true);
  EXPECT_LT(trained.losses.back(), 0.5F * trained.losses.front());
}

TEST_P(DecoderBlocksIn, ParametersKeepTheirPlaces) {
  expect_parameters_keep_their_places(model_of(family()), options());
}

constexpr DecoderFamily kDecoderFamilies[] = {DecoderFamily::kLlama, DecoderFamily::kQwen3,
                                              DecoderFamily::kGpt2};

INSTANTIATE_TEST_SUITE_P(Families, DecoderBlocks, testing::ValuesIn(kDecoderFamilies),
                         [](const auto& info) { return family_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Families, DecoderBlocksIn,
                         testing::Combine(testing::ValuesIn(kDecoderFamilies),
                                          testing::Values(Precision::kFloat32, Precision::kBfloat16,
                                                          Precision::kFloat16)),
                         [](const auto& info) {
                           const Precision precision = std::get<1>(info.param);
                           const char* name = precision == Precision::kFloat32    ? "fp32"
                                              : precision == Precision::kBfloat16 ? "bf16"
                                                                                  : "fp16";
                           return family_name(std::get<0>(info.param)) + "_" + name;
                         });

// Without masters a weight of [inputs, outputs] is 2 bytes too, and the same update rounds it.
TEST(DecoderWithoutMasters, LearnsInTwoBytesAWeight) {
  StepOptions step;
  step.precision = Precision::kBfloat16;
  step.master_weights = MasterWeights::kNone;
  const TrainedDecoder trained = train_decoder(model_of(DecoderFamily::kGpt2), step, 20, true);
  EXPECT_LT(trained.losses.back(), 0.5F * trained.losses.front());
  const Session session(model_of(DecoderFamily::kGpt2), session_options(step));
  const StateTable& state = session.state();
  const Parameter& weight = state.parameter(state.find_parameter("layer.0.c_attn.weight"));
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{kHidden, 3 * kHidden}));
  EXPECT_EQ(state.storage(weight.storage).type.dtype, DType::kBF16);
}

// Adding the scaled (B·A)ᵀ to a weight of [inputs, outputs] gives the adapted model's answers.
TEST(DecoderLora, TheMergedConv1dAnswersAsTheAdapted) {
  const std::vector<Sample> samples = six_samples(3);
  StepOptions step;
  step.lora = {.rank = 4, .alpha = 6, .targets = {"c_attn", "c_fc"}};
  TrainingRun with(model_of(DecoderFamily::kGpt2), session_options(step));
  Weights weights = read_weights(with.session());
  const StateTable& state = with.session().state();
  EXPECT_EQ(with.session().family().adapters.list.size(), 4U);
  for (const LowRankAdapter& adapter : with.session().family().adapters.list) {
    EXPECT_TRUE(adapter.is_transposed);
    const Parameter& weight = state.parameter(adapter.weight);
    std::vector<float>& w = weights.at(weight.name);
    const std::vector<float>& a = weights.at(state.parameter(adapter.a).name);
    const std::vector<float>& b = weights.at(state.parameter(adapter.b).name);
    const auto inputs = static_cast<size_t>(weight.shape[0]);
    const auto outputs = static_cast<size_t>(weight.shape[1]);
    ASSERT_EQ(a.size(), 4 * inputs);
    for (size_t i = 0; i < w.size(); ++i) {
      for (size_t r = 0; r < 4; ++r) w[i] += 1.5F * b[i % outputs * 4 + r] * a[r * inputs + i / outputs];
    }
  }
  step.lora = {};
  TrainingRun merged(model_of(DecoderFamily::kGpt2), session_options(step));
  write_weights(merged.session(), weights);
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5};
  const std::vector<float> expected = merged.evaluate(samples, all, 2);
  const std::vector<float> found = with.evaluate(samples, all, 2);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 64 * 0x1p-23 * std::max(1.0F, std::abs(expected[i]))) << i;
}

}  // namespace
}  // namespace shoehorn
