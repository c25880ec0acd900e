// A stack as decoders have it, through the whole pipeline: linear layers without biases, query heads that share
// keys and values, heads whose columns are not the hidden size, and a mask of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error_testing.h"
#include "decoder_training.h"
#include "model/layers.h"
#include "program_nodes.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr int64_t kQueryHeads = 6;
constexpr int64_t kKeyValueHeads = 2;
constexpr int64_t kHeadSize = 5;
// The first token is classified: the last layer lets it see what the others made of the rest.
const std::array<AttentionMask, 3> kMasks = {AttentionMask::causal(), AttentionMask::sliding_window(4),
                                             AttentionMask::full()};

Tensor decoder_layer(ModelBuilder& builder, int32_t layer, Tensor x) {
  const std::string prefix = fmt::format("layer.{}.", layer);
  const auto linear = [&](const char* name, Tensor input, int64_t outputs) {
    return linear_layer_without_bias(builder, prefix + name, input, outputs, 0.2F);
  };
  builder.set_region(layer, Component::kAttention);
  const Tensor read = layer_norm_layer(builder, prefix + "attention_norm", x, 1e-5F);
  const Tensor context = builder.attention(linear("query", read, kQueryHeads * kHeadSize),
                                           linear("key", read, kKeyValueHeads * kHeadSize),
                                           linear("value", read, kKeyValueHeads * kHeadSize),
                                           {.heads = kQueryHeads,
                                            .key_value_heads = kKeyValueHeads,
                                            .mask = kMasks.at(static_cast<size_t>(layer)),
                                            .dropout = 0.1F});
  x = builder.add(linear("output", context, kHidden), x);
  builder.set_region(layer, Component::kFeedForward);
  const Tensor inner = builder.activation(
      linear("up", layer_norm_layer(builder, prefix + "feed_forward_norm", x, 1e-5F), 40), Activation::kSilu);
  return builder.add(linear("down", inner, kHidden), x);
}

ToyModel decoder() {
  return ToyModel([](ModelBuilder& builder) {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(embedding_table(builder, "table", kVocabulary, kHidden, 0.5F),
                                 builder.input(BatchColumn::kInputIds));
    for (int32_t layer = 0; layer < 3; ++layer) x = decoder_layer(builder, layer, x);
    builder.set_region(-1, Component::kHead);
    return linear_layer_without_bias(builder, "head", builder.first_tokens(x), 2, 0.2F);
  });
}

// Sums of up to 40 terms, some eight ops deep in each of three layers, forward and backward.
constexpr double kDecoderRoundings = 6 * 8 * 6.3;

TEST(Decoder, IsFusedAsAnEncoderIs) {
  const Session session(decoder(), session_options({}));
  for (const Program& program : session.family().programs) {
    EXPECT_EQ(count_forward_nodes(program, OpKind::kAttention), 3) << program.name();
    EXPECT_EQ(count_forward_nodes(program, OpKind::kAttentionScores), 0);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kMatmul), 3 * 4 + 1);
    EXPECT_EQ(count_forward_nodes(program, OpKind::kBiasAdd), 0);
  }
  const StateTable& state = session.state();
  const Parameter& value = state.parameter(state.find_parameter("layer.1.value.weight"));
  EXPECT_EQ(state.storage(value.storage).type.shape,
            (Shape{(kQueryHeads + 2 * kKeyValueHeads) * kHeadSize, kHidden}));
  EXPECT_EQ(value.offset_elements, (kQueryHeads + kKeyValueHeads) * kHeadSize * kHidden);
  for (const Parameter& parameter : state.parameters())
    EXPECT_TRUE(!parameter.name.ends_with(".bias") || parameter.name.find("norm") != std::string::npos)
        << parameter.name;
}

// Fused or not, in one micro-batch or several, with adapters or without: one function and its gradients.
TEST(Decoder, EveryArrangementHasTheSameGradients) {
  const std::vector<Sample> samples = six_samples(3);
  for (const bool adapts : {false, true}) {
    StepOptions step = gradient_options();
    if (adapts) step.lora = {.rank = 4, .alpha = 6, .dropout = 0.1F, .targets = {"all-linear"}};
    const Gradients expected = gradients_of(decoder(), step, samples, kSixInOneMicroBatch);
    for (const auto& [name, values] : expected.values) {
      const bool is_trained =
          std::any_of(values.begin(), values.end(), [](double value) { return value != 0; });
      EXPECT_EQ(is_trained, !adapts || name.find("lora_") != std::string::npos || name == "head.weight")
          << name;
    }
    for (const char* pass : {"fuse", "gather_early", "rematerialize"}) {
      SCOPED_TRACE(fmt::format("adapters {}, without {}", adapts, pass));
      StepOptions skipping = step;
      skipping.skip_passes = {pass};
      expect_close(gradients_of(decoder(), skipping, samples, kSixInOneMicroBatch), expected,
                   kDecoderRoundings);
    }
    for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
      SCOPED_TRACE(fmt::format("adapters {}, accumulation", adapts));
      StepOptions split = step;
      split.gradient_accumulation_steps = 2;
      split.accumulation_order = order;
      expect_close(gradients_of(decoder(), split, samples, {{0, 1, 2, 3}, {4, 5}}), expected,
                   kDecoderRoundings);
    }
  }
}

// A frozen key leaves products of their own, and the others' gradients as they are.
TEST(Decoder, FreezingOnePartLeavesTheOthersGradients) {
  const std::vector<Sample> samples = six_samples(3);
  StepOptions step = gradient_options();
  Gradients expected = gradients_of(decoder(), step, samples, kSixInOneMicroBatch);
  step.freeze = {R"(layer\.1\.key)", R"(layer\.0\.query)"};
  const Gradients found = gradients_of(decoder(), step, samples, kSixInOneMicroBatch);
  for (const char* frozen : {"layer.1.key.weight", "layer.0.query.weight"}) {
    for (const double value : found.values.at(frozen)) EXPECT_EQ(value, 0) << frozen;
    expected.values.at(frozen) = found.values.at(frozen);
  }
  expect_close(found, expected, kDecoderRoundings);
}

// The message of a model with this attention over 30 columns of queries, and 10 of keys and of values.
std::string refusal(const AttentionOptions& options, bool has_own_keys = false) {
  const ToyModel model([&](ModelBuilder& builder) {
    const Tensor x = builder.embedding(embedding_table(builder, "table", kVocabulary, kHidden, 0.5F),
                                       builder.input(BatchColumn::kInputIds));
    AttentionOptions own = options;
    if (has_own_keys) own.key_start = builder.input(BatchColumn::kSequenceStart);
    const Tensor context = builder.attention(linear_layer_without_bias(builder, "query", x, 30, 0.2F),
                                             linear_layer_without_bias(builder, "key", x, 10, 0.2F),
                                             linear_layer_without_bias(builder, "value", x, 10, 0.2F), own);
    return linear_layer_without_bias(builder, "head", builder.first_tokens(context), 2, 0.2F);
  });
  return refusal_of([&] { const Session session(model, session_options({})); });
}

TEST(Decoder, MistakesAreNamed) {
  const AttentionMask empty = AttentionMask::sliding_window(0);
  EXPECT_EQ(refusal({.heads = 6, .key_value_heads = 2}), "");
  EXPECT_TRUE(contains(refusal({.heads = 7}), "30 columns and 7 heads"));
  EXPECT_TRUE(contains(refusal({.heads = 6}), "6 heads of 5 columns"));
  EXPECT_TRUE(contains(refusal({.heads = 6, .key_value_heads = 4}), "divide the query heads, got 4 of 6"));
  EXPECT_TRUE(contains(refusal({.heads = 6, .key_value_heads = 2, .mask = empty}), "1 key or more, got 0"));
  EXPECT_TRUE(contains(refusal({.heads = 6, .key_value_heads = 2, .dropout = 1}), "[dropout]"));
  EXPECT_TRUE(contains(refusal({.heads = 6, .key_value_heads = 2}, true), "the most keys of a sequence"));
  EXPECT_TRUE(contains(refusal({.heads = 6, .key_value_heads = 2, .longest_keys = 9}, true),
                       "starts and lengths of the keys"));
}

class DecoderPrecision : public testing::TestWithParam<Precision> {
 protected:
  static StepOptions options() {
    StepOptions step;
    step.precision = GetParam();
    step.loss_scale.initial = 256;  // no step of these is skipped
    return step;
  }
};

TEST_P(DecoderPrecision, RecomputedLayersChangeNoBit) {
  for (const bool adapts : {false, true}) {
    StepOptions step = options();
    if (adapts) step.lora = {.rank = 4, .dropout = 0.1F};
    const TrainedDecoder kept = train_decoder(decoder(), step, 3, false);
    for (const int64_t layers : {1, 2}) {
      step.recompute_every_n_layers = layers;
      const TrainedDecoder recomputed = train_decoder(decoder(), step, 3, false);
      EXPECT_EQ(recomputed.losses, kept.losses);
      for (const auto& [name, values] : kept.weights)
        EXPECT_TRUE(recomputed.weights.at(name) == values) << name << " differs";
    }
  }
}

// Six samples are learned by heart.
TEST_P(DecoderPrecision, Learns) {
  const TrainedDecoder trained = train_decoder(decoder(), options(), 20, true);
  EXPECT_LT(trained.losses.back(), 0.5F * trained.losses.front());
}

TEST_P(DecoderPrecision, ParametersKeepTheirPlaces) {
  expect_parameters_keep_their_places(decoder(), options());
}

INSTANTIATE_TEST_SUITE_P(Precisions, DecoderPrecision,
                         testing::Values(Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16),
                         [](const auto& info) {
                           if (info.param == Precision::kFloat16) return "fp16";
                           return info.param == Precision::kFloat32 ? "fp32" : "bf16";
                         });

}  // namespace
}  // namespace shoehorn
