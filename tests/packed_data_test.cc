// What the packer lays out, through whole programs: an encoder and a decoder with tokens of their own, and samples of
// several documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error_testing.h"
#include "data/block_source.h"
#include "model/layers.h"
#include "packed_training.h"
#include "train/trainer.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

Tensor attention_layer(ModelBuilder& builder, const std::string& name, Tensor x, Tensor keys,
                       AttentionMask mask) {
  const auto linear = [&](const char* part, Tensor of) {
    return linear_layer_without_bias(builder, name + part, of, kHidden, 0.2F);
  };
  const Tensor context = builder.attention(linear(".query", x), linear(".key", keys), linear(".value", keys),
                                           {.heads = 3, .mask = mask, .dropout = 0.1F});
  return layer_norm_layer(builder, name + ".norm",
                          builder.add(builder.token_dropout(linear(".output", context), 0.1F), x), 1e-5F);
}

Tensor feed_forward_layer(ModelBuilder& builder, const std::string& name, Tensor x) {
  const Tensor inner =
      builder.activation(linear_layer(builder, name + ".up", x, 40, 0.2F), Activation::kGelu);
  return builder.add(linear_layer(builder, name + ".down", inner, kHidden, 0.2F), x);
}

// Its tables are shared, and the decoder's second attention reads the encoder's tokens.
ToyTokenModel encoder_decoder() {
  return ToyTokenModel(LabelKind::kDecoderToken, [](ModelBuilder& builder) {
    builder.set_region(-1, Component::kEmbeddings);
    const Tensor table = embedding_table(builder, "shared", kVocabulary, kHidden, 0.5F);
    const Tensor places = embedding_table(builder, "places", 20, kHidden, 0.5F);
    Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
    x = builder.add_embedding(x, places, builder.input(BatchColumn::kPositionIds));
    Tensor y = builder.embedding(table, builder.input(BatchColumn::kDecoderInputIds));
    y = builder.add_embedding(y, places, builder.input(BatchColumn::kDecoderPositionIds));
    builder.set_region(0, Component::kAttention);
    x = attention_layer(builder, "encoder.attention", x, x, AttentionMask::full());
    x = feed_forward_layer(builder, "encoder", x);
    builder.set_region(1, Component::kAttention);
    y = attention_layer(builder, "decoder.attention", y, y, AttentionMask::causal());
    y = attention_layer(builder, "decoder.cross", y, x, AttentionMask::full());
    y = feed_forward_layer(builder, "decoder", y);
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "head", y, kVocabulary, 0.2F);
  });
}

// Inputs of up to 20 tokens; what the decoder is to say has up to 9, some of which count for nothing.
Dataset translations(int64_t count, uint32_t seed = 5) {
  std::mt19937 engine(seed);
  Rows inputs;
  Rows labels;
  for (int64_t i = 0; i < count; ++i) {
    inputs.push_back(random_row(engine, 20));
    labels.push_back(random_row(engine, 9));
    if (labels.back().size() > 3) labels.back()[1] = kIgnoredLabel;
  }
  return Dataset::from_columns(
      {{"input_ids", inputs}, {"decoder_input_ids", shift_tokens_right(labels, 0, 0)}, {"labels", labels}});
}

// Sums of up to 53 terms, some eight ops deep in each of three blocks, forward and backward.
constexpr double kPackedRoundings = 6 * 8 * 7.3;

// Packed or padded, whole or in parts, fused or not, with adapters or without: one function and its gradients.
TEST(EncoderDecoder, EveryArrangementHasTheSameGradients) {
  const Dataset dataset = translations(6);
  const ToyTokenModel model = encoder_decoder();
  for (const bool adapts : {false, true}) {
    StepOptions step = gradient_options();
    if (adapts) step.lora = {.rank = 4, .alpha = 6, .dropout = 0.1F, .targets = {"all-linear"}};
    const Gradients expected = gradients_of(model, dataset, step, packing_of(6), kSixSamples);
    for (const auto& [name, values] : expected.values) {
      const bool is_trained = std::ranges::any_of(values, [](double value) { return value != 0; });
      EXPECT_EQ(is_trained, !adapts || name.find("lora_") != std::string::npos || name.starts_with("head."))
          << name;
    }
    {
      SCOPED_TRACE("padded");
      expect_close(gradients_of(model, dataset, step, packing_of(6, 20, 9), kSixSamples), expected,
                   kPackedRoundings);
      expect_close(gradients_of(model, dataset, step, packing_of(6, 0, 12), kSixSamples), expected,
                   kPackedRoundings);
    }
    for (const char* pass : {"fuse", "gather_early", "rematerialize"}) {
      SCOPED_TRACE(fmt::format("without {}", pass));
      StepOptions skipping = step;
      skipping.skip_passes = {pass};
      expect_close(gradients_of(model, dataset, skipping, packing_of(6), kSixSamples), expected,
                   kPackedRoundings);
    }
    for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
      SCOPED_TRACE(order == AccumulationOrder::kLayer ? "by layer" : "by micro-batch");
      StepOptions split = step;
      split.gradient_accumulation_steps = 3;
      split.accumulation_order = order;
      expect_close(gradients_of(model, dataset, split, packing_of(4), {{0, 1, 2, 3}, {4}, {5}}), expected,
                   kPackedRoundings);
      // A short last window.
      expect_close(gradients_of(model, dataset, split, packing_of(4), {{0, 1, 2, 3}, {4, 5}}), expected,
                   kPackedRoundings);
    }
  }
}

TEST(EncoderDecoder, EachAxisHasItsCount) {
  PackedRun run(encoder_decoder(), translations(6), gradient_options(), packing_of(6));
  run.step(kSixSamples, 0);
  const std::vector<int64_t>& counts = run.last_counts();
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_EQ(counts[1], 6);
  EXPECT_GT(counts[0], counts[2]) << "more tokens of the input than of the decoder";
  EXPECT_GT(counts[2], 0);
}

// Along the gradient of each parameter the loss grows as its norm says: from differences at two distances, whose error
// of third order is taken out.
TEST(EncoderDecoder, TheGradientIsThatOfTheLoss) {
  const Dataset dataset = translations(6);
  const ToyTokenModel model = encoder_decoder();
  const Gradients gradients = gradients_of(model, dataset, gradient_options(), packing_of(6), kSixSamples);
  PackedRun run(model, dataset, gradient_options(), packing_of(6));
  const Weights weights = read_weights(run.session());
  const auto loss_at = [&](const std::string& name, double distance, double norm) {
    Weights moved = weights;
    std::vector<float>& values = moved.at(name);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += static_cast<float>(distance * gradients.values.at(name)[i] / norm);
    write_weights(run.session(), moved);
    // The dropout masks are those of step 0 again.
    run.session().executor().write_scalar(run.session().family().scalars.step, int32_t{0});
    return static_cast<double>(run.step(kSixSamples, 0));
  };
  for (const auto& [name, values] : gradients.values) {
    const double norm = std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
    // Of a key without a bias there is one; no parameter of this model has a gradient of rounding alone.
    ASSERT_GT(norm, 1e-3) << name;
    const auto slope = [&](double h) { return (loss_at(name, h, norm) - loss_at(name, -h, norm)) / (2 * h); };
    constexpr double kDistance = 0.02;
    const double measured = (4 * slope(kDistance / 2) - slope(kDistance)) / 3;
    // A loss of about 4 is known to 8 half steps of fp32, and weights of up to 1 lose theirs when they are moved.
    const double rounding = 8 * 4 * 0x1p-24 / kDistance + norm * 0x1p-24 / kDistance;
    EXPECT_NEAR(measured, norm, 2 * rounding + 2e-3 * norm) << name;
  }
}

TEST(EncoderDecoder, RecomputedLayersChangeNoBit) {
  const Dataset dataset = translations(6);
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    StepOptions step;
    step.precision = precision;
    const auto losses = [&] {
      PackedRun run(encoder_decoder(), dataset, step, packing_of(6));
      std::vector<float> all;
      for (int i = 0; i < 3; ++i) all.push_back(run.step(kSixSamples, 1e-2F));
      return all;
    };
    const std::vector<float> kept = losses();
    step.recompute_every_n_layers = 1;
    EXPECT_EQ(losses(), kept);
  }
}

// Through the Trainer: six samples are learned by heart, with batches packed ahead or not.
TEST(EncoderDecoder, TheTrainerTrainsIt) {
  const ToyTokenModel model = encoder_decoder();
  TrainingArguments args;
  args.output_dir = (std::filesystem::temp_directory_path() / "shoehorn-encoder-decoder").string();
  args.save_strategy = "no";
  args.per_device_train_batch_size = 2;
  args.gradient_accumulation_steps = 2;
  args.learning_rate = 1e-2;
  args.max_steps = 40;
  const auto loss_of = [&] {
    Trainer trainer(model, args, translations(6));
    return trainer.train().training_loss;
  };
  const double loss = loss_of();
  args.dataloader_num_workers = 1;
  EXPECT_EQ(loss_of(), loss);
  args.max_steps = 1;
  EXPECT_LT(loss, 0.5 * loss_of());
  std::filesystem::remove_all(args.output_dir);
}

TEST(EncoderDecoder, DataThatDoNotGoWithTheModelAreRefused) {
  const Dataset inputs = Dataset::from_columns({{"input_ids", Rows{{5, 6}}}, {"labels", Rows{{1, 2}}}});
  EXPECT_TRUE(
      contains(refusal_of([&] { PackedRun(encoder_decoder(), inputs, gradient_options(), packing_of(1)); }),
               "[decoder_input_ids] expected samples with tokens of a decoder"));
  const Dataset both = Dataset::from_columns(
      {{"input_ids", Rows{{5, 6}}}, {"decoder_input_ids", Rows{{5}}}, {"labels", std::vector<int64_t>{1}}});
  const BertForSequenceClassification encoder(small_bert());
  EXPECT_TRUE(contains(refusal_of([&] { Trainer(encoder, {}, both); }),
                       "[training data] expected samples without decoder_input_ids"));
  const Dataset beyond = Dataset::from_columns(
      {{"input_ids", Rows{{5, 6}}}, {"decoder_input_ids", Rows{{5, kVocabulary}}}, {"labels", Rows{{1, 2}}}});
  EXPECT_TRUE(contains(refusal_of([&] { Trainer(encoder_decoder(), {}, beyond); }),
                       fmt::format("got {} in sample 0", kVocabulary)));
}

// A causal language model with absolute positions.
ToyTokenModel positioned_language_model(LabelKind labels = LabelKind::kToken) {
  return ToyTokenModel(labels, [](ModelBuilder& builder) {
    builder.set_region(-1, Component::kEmbeddings);
    const Tensor table = embedding_table(builder, "table", kVocabulary, kHidden, 0.5F);
    Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
    x = builder.add_embedding(x, embedding_table(builder, "places", 20, kHidden, 0.5F),
                              builder.input(BatchColumn::kPositionIds));
    builder.set_region(0, Component::kAttention);
    x = attention_layer(builder, "attention", x, x, AttentionMask::causal());
    x = feed_forward_layer(builder, "layer", x);
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "head", x, kVocabulary, 0.2F);
  });
}

// Documents that are packed into one sample are what they are as samples of their own, dropout included: none sees
// another.
TEST(PackedDocuments, AreSequencesOfTheirOwn) {
  std::mt19937 engine(11);
  Rows documents;
  Rows labels;
  for (int i = 0; i < 6; ++i) {
    documents.push_back(random_row(engine, 15));
    labels.push_back(random_row(engine, 1));
    labels.back().resize(documents.back().size(), 7);
  }
  Rows packed(3);
  Rows packed_labels(3);
  Rows positions(3);
  const std::array<size_t, 6> sample_of = {0, 0, 0, 1, 2, 2};
  for (size_t d = 0; d < documents.size(); ++d) {
    const size_t s = sample_of.at(d);
    packed[s].insert(packed[s].end(), documents[d].begin(), documents[d].end());
    packed_labels[s].insert(packed_labels[s].end(), labels[d].begin(), labels[d].end());
    for (size_t t = 0; t < documents[d].size(); ++t) positions[s].push_back(static_cast<int64_t>(t));
  }
  const Dataset apart = Dataset::from_columns({{"input_ids", documents}, {"labels", labels}});
  const Dataset together =
      Dataset::from_columns({{"input_ids", packed}, {"position_ids", positions}, {"labels", packed_labels}});
  EXPECT_EQ(together.facts().most_documents, 3);
  EXPECT_EQ(micro_batch_capacity(together, packing_of(2)).sequences, 5);
  EXPECT_EQ(micro_batch_capacity(together, packing_of(3)).longest_sequence, apart.max_length());
  EXPECT_NE(together.content_hash(),
            Dataset::from_columns({{"input_ids", packed}, {"labels", packed_labels}}).content_hash());
  const ToyTokenModel model = positioned_language_model();
  StepOptions step = gradient_options();
  const Gradients expected = gradients_of(model, apart, step, packing_of(6), {{0, 1, 2, 3, 4, 5}});
  const Gradients found = gradients_of(model, together, step, packing_of(3), {{0, 1, 2}});
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_TRUE(found.values == expected.values);
  for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
    step.gradient_accumulation_steps = 2;
    step.accumulation_order = order;
    expect_close(gradients_of(model, together, step, packing_of(2), {{0, 1}, {2}}), expected,
                 kPackedRoundings);
  }
  expect_close(gradients_of(model, together, gradient_options(), packing_of(3, 50), {{0, 1, 2}}), expected,
               kPackedRoundings);
}

// Labels that the packer moves give what rows of labels give that were moved before, of concatenated texts and of
// documents.
TEST(NextTokenLabels, AreRowsOfMovedLabels) {
  std::mt19937 engine(12);
  Rows texts;
  for (int i = 0; i < 12; ++i) texts.push_back(random_row(engine, 15));
  const Dataset documents = Dataset::from_columns({{"input_ids", texts}});
  for (const BlockPacking packing : {BlockPacking::kConcatenate, BlockPacking::kDocuments}) {
    const Dataset blocks = cut_blocks(documents, {.block_size = 18, .packing = packing});
    Rows ids;
    Rows positions;
    Rows moved;
    for (int64_t i = 0; i < blocks.size(); ++i) {
      const std::vector<int32_t> block = blocks.input_ids(i);
      ids.emplace_back(block.begin(), block.end());
      positions.emplace_back();
      moved.emplace_back();
      for (int64_t d = 0; d < blocks.source().document_count(i); ++d) {
        const int64_t length = blocks.source().document_length(i, d);
        for (int64_t t = 0; t < length; ++t) {
          positions.back().push_back(t);
          const size_t behind = moved.back().size() + 1;
          moved.back().push_back(t + 1 < length ? block[behind] : kIgnoredLabel);
        }
      }
    }
    const Dataset rows =
        Dataset::from_columns({{"input_ids", ids}, {"position_ids", positions}, {"labels", moved}});
    const Dataset next_tokens = Dataset::next_token(blocks);
    const int64_t half = blocks.size() / 2;
    ASSERT_GE(half, 2);
    std::vector<int64_t> first(static_cast<size_t>(half));
    std::iota(first.begin(), first.end(), 0);
    std::vector<int64_t> second(static_cast<size_t>(half));
    std::iota(second.begin(), second.end(), half);
    StepOptions step = gradient_options();
    step.gradient_accumulation_steps = 2;
    const Gradients expected =
        gradients_of(positioned_language_model(), rows, step, packing_of(half), {first, second});
    const Gradients found = gradients_of(positioned_language_model(LabelKind::kNextToken), next_tokens, step,
                                         packing_of(half), {first, second});
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_TRUE(found.values == expected.values);
  }
}

}  // namespace
}  // namespace shoehorn
