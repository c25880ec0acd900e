// Decoders against Transformers (tests/golden/decoder_make.py): every architecture, every rope, tied and untied, windows,
// the padding's id inside the text, in every arrangement of the step.
#include <gtest/gtest.h>

#include "golden_step.h"
#include "io/test_directory.h"
#include "models/rotary_config.h"
#include "passes/pipeline.h"

namespace shoehorn {
namespace {

using namespace test_support;

const std::filesystem::path kDecoderGolden = golden("decoders");

class DecoderGolden : public testing::TestWithParam<std::tuple<const char*, Arrangement>> {};

TEST_P(DecoderGolden, LogitsLossAndEveryGradient) {
  const auto& [name, arrangement] = GetParam();
  GoldenStep step(kDecoderGolden / name, kDecoderGolden / name, arrangement.step);
  step.expect_logits();
  step.expect_loss_and_gradients();
}

class DecoderLossGolden : public testing::TestWithParam<std::tuple<const char*, Arrangement>> {};

// Label smoothing and z-loss: the loss and every gradient, with labels that do not count inside the texts.
TEST_P(DecoderLossGolden, LossAndEveryGradient) {
  const auto& [name, arrangement] = GetParam();
  const std::filesystem::path directory = kDecoderGolden / name;
  const nlohmann::json facts = read_json(directory / "golden.json")["main"];
  StepOptions options = arrangement.step;
  options.label_smoothing = facts["label_smoothing"];
  options.z_loss = facts["z_loss"];
  GoldenStep step(directory, directory, options);
  step.expect_logits();
  step.expect_loss_and_gradients();
}

// Evaluation has the smoothing, as the Trainer's, and no z-loss.
TEST(DecoderZLoss, IsOfTheTrainingAlone) {
  const auto model = model_of_config(kDecoderGolden / "llama" / "config.json");
  StepOptions step;
  step.label_smoothing = 0.125F;
  step.z_loss = 0.25F;
  const BatchCapacity capacity{64, 4, 32};
  const ProgramFamily family = build_programs(*model, RunKind::kTrain, capacity, capacity, step);
  int losses = 0;
  for (const Program& program : family.programs) {
    for (const Node& node : program.nodes()) {
      const auto* loss = std::get_if<LossAttributes>(&node.attributes);
      if (const auto* with_grad = std::get_if<LinearLossGradAttributes>(&node.attributes))
        loss = &with_grad->loss;
      if (loss == nullptr) continue;
      ++losses;
      EXPECT_EQ(loss->label_smoothing, 0.125F) << program.name();
      EXPECT_EQ(loss->z_loss, program.traits().trains ? 0.25F : 0.0F) << program.name();
    }
  }
  EXPECT_EQ(losses, 2);
}

// The base and the factors of a program follow from the longest sequence that it has room for: those of two buckets differ.
TEST(DecoderRotary, AProgramTakesTheFrequenciesOfItsLongestSequence) {
  const auto frequencies_of = [](const Program& program) {
    for (const Node& node : program.nodes()) {
      if (node.kind == OpKind::kRotaryTable)
        return std::get<RotaryTableAttributes>(node.attributes).rotary.frequencies;
    }
    return std::vector<float>();
  };
  for (const char* name : {"llama_longrope_long", "llama_dynamic_long", "llama_linear"}) {
    const std::string file = (kDecoderGolden / name / "config.json").string();
    const auto model = model_of_config(kDecoderGolden / name / "config.json");
    const Rotary rotary = rotary_from_json(
        read_json(file), {.head_size = 8, .max_positions = model->max_position_embeddings()}, file);
    const ProgramFamily family = build_programs(
        *model, RunKind::kTrain, BatchBuckets({64, 4, 32}, {{16, 1, 16}}), BatchBuckets({64, 4, 32}), {});
    for (const Program& program : family.programs) {
      const int64_t longest = family.capacity_of(program).longest_sequence;
      EXPECT_EQ(frequencies_of(program), rotary.for_length(longest).frequencies) << name << " " << longest;
    }
    EXPECT_EQ(rotary.for_length(16).frequencies == rotary.for_length(32).frequencies,
              std::string(name) == "llama_linear");
  }
}

std::string name_of(const testing::TestParamInfo<DecoderGolden::ParamType>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param).name);
}

const auto kPlain = arrangement("plain", [](StepOptions&) {});
const auto kUnfused = arrangement("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; });
const auto kLayerMajor = arrangement("layer_major_recompute_update", [](StepOptions& o) {
  o.gradient_accumulation_steps = 2;
  o.accumulation_order = AccumulationOrder::kLayer;
  o.recompute_every_n_layers = 1;
  o.update_in_backward = true;
});

INSTANTIATE_TEST_SUITE_P(
    Every, DecoderGolden,
    testing::Combine(testing::Values("gpt2", "gpt2_untied", "gpt2_classifier", "gpt2_classifier_padded",
                                     "llama", "llama_tied_biases", "llama_linear", "llama_dynamic",
                                     "llama_llama3", "llama_yarn", "llama_yarn_mscale", "llama_longrope",
                                     "llama_longrope_long", "llama_dynamic_long", "llama_classifier",
                                     "mistral_classifier", "qwen2_classifier", "qwen3_classifier", "mistral",
                                     "qwen2", "qwen2_window", "qwen3", "qwen3_window", "gpt2_unscaled",
                                     "mistral_tied_no_window", "qwen3_tied_biases"),
                     testing::Values(kPlain, kUnfused, kLayerMajor)),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Losses, DecoderLossGolden,
    testing::Combine(testing::Values("gpt2_label_smoothing", "llama_z_loss", "qwen3_label_smoothing_z_loss"),
                     testing::Values(kPlain, kUnfused, kLayerMajor,
                                     arrangement("apart",
                                                 [](StepOptions& o) {
                                                   o.skip_passes = {"fuse_vocabulary_gradient"};
                                                 }),
                                     arrangement("accumulate",
                                                 [](StepOptions& o) { o.gradient_accumulation_steps = 2; }))),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Arranged, DecoderGolden,
    testing::Combine(
        testing::Values("gpt2", "gpt2_classifier", "llama", "mistral", "qwen2", "qwen3"),
        testing::Values(arrangement("recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }),
                        arrangement("accumulate", [](StepOptions& o) { o.gradient_accumulation_steps = 2; }),
                        arrangement("bf16", [](StepOptions& o) { o.precision = Precision::kBfloat16; }),
                        arrangement("bf16_unfused",
                                    [](StepOptions& o) {
                                      o.precision = Precision::kBfloat16;
                                      o.skip_passes = {"fuse"};
                                    }),
                        arrangement("fp16", fp16))),
    name_of);

}  // namespace
}  // namespace shoehorn
