// Decoders against Transformers (tests/golden/decoder_make.py): every architecture, every rope, tied and untied, windows,
// the padding's id inside the text, in every arrangement of the step.
#include <gtest/gtest.h>

#include "golden_step.h"
#include "io/test_directory.h"
#include "models/rotary_config.h"
#include "passes/pipeline.h"

namespace shoehorn {
namespace {

using namespace testing;

const std::filesystem::path kDecoderGolden = golden("decoders");

class DecoderGolden : public ::testing::TestWithParam<std::tuple<const char*, Arrangement>> {};

TEST_P(DecoderGolden, LogitsLossAndEveryGradient) {
  const auto& [name, arrangement] = GetParam();
  GoldenStep step(kDecoderGolden / name, kDecoderGolden / name, arrangement.step);
  step.expect_logits();
  step.expect_loss_and_gradients();
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

std::string name_of(const ::testing::TestParamInfo<DecoderGolden::ParamType>& info) {
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
    ::testing::Combine(::testing::Values("gpt2", "gpt2_untied", "gpt2_classifier", "gpt2_classifier_padded",
                                         "llama", "llama_tied_biases", "llama_linear", "llama_dynamic",
                                         "llama_llama3", "llama_yarn", "llama_yarn_mscale", "llama_longrope",
                                         "llama_longrope_long", "llama_dynamic_long", "llama_classifier",
                                         "mistral", "qwen2", "qwen2_window", "qwen3"),
                       ::testing::Values(kPlain, kUnfused, kLayerMajor)),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Arranged, DecoderGolden,
    ::testing::Combine(
        ::testing::Values("gpt2", "gpt2_classifier", "llama", "mistral", "qwen2", "qwen3"),
        ::testing::Values(arrangement("recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }),
                          arrangement("accumulate",
                                      [](StepOptions& o) { o.gradient_accumulation_steps = 2; }),
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
