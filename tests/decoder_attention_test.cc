// What config.json says of a decoder's attention becomes its program's: masks, heads, biases.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "base/attention_mask.h"
#include "base/error.h"
#include "graph/program.h"
#include "models/decoder_model.h"
#include "models/registry.h"
#include "passes/pipeline.h"

namespace shoehorn {
namespace {

using nlohmann::json;

// A small model of the type with the keys of `more`.
json small_decoder(const char* type, const json& more) {
  json config = {{"model_type", type},       {"vocab_size", 50},
                 {"hidden_size", 64},        {"num_attention_heads", 8},
                 {"num_key_value_heads", 2}, {"intermediate_size", 20},
                 {"num_hidden_layers", 3},   {"max_position_embeddings", 16}};
  config.update(more);
  return config;
}

// Of each layer of the language model, and the parameters by their names.
struct DecoderAttention {
  explicit DecoderAttention(const json& config) {
    const auto model = model_from_json(config, "c", Head::kCausalLanguageModel);
    constexpr BatchCapacity kCapacity{16, 1, 16};
    family = build_programs(*model, RunKind::kEvaluate, kCapacity, kCapacity, {});
    for (const Node& node : family.programs[0].nodes()) {
      if (node.kind == OpKind::kAttention) layers.push_back(std::get<AttentionAttributes>(node.attributes));
    }
  }

  bool has_parameter(const char* name) const { return family.state->find_parameter(name).valid(); }

  std::vector<AttentionMask> masks() const {
    std::vector<AttentionMask> masks;
    for (const AttentionAttributes& layer : layers) masks.push_back(layer.mask);
    return masks;
  }

  ProgramFamily family;
  std::vector<AttentionAttributes> layers;
};

const std::vector<AttentionMask> kThreeCausal(3, AttentionMask::causal());

TEST(DecoderAttention, AbsentKeysMeanTheDefaultsOfTheClass) {
  const DecoderAttention llama(small_decoder("llama", {{"num_key_value_heads", nullptr}}));
  EXPECT_EQ(llama.layers.at(0).key_value_heads, 8) << "as many as heads";
  EXPECT_EQ(llama.layers.at(0).head_size, 64 / 8);
  EXPECT_FALSE(llama.has_parameter("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_TRUE(llama.has_parameter("lm_head.weight")) << "the head is not tied";
  EXPECT_FALSE(DecoderAttention({{"model_type", "gpt2"}, {"n_layer", 1}, {"n_embd", 24}})
                   .has_parameter("lm_head.weight"));
  EXPECT_EQ(DecoderAttention(small_decoder("qwen3", json::object())).layers.at(0).head_size, 128);
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    const DecoderAttention nulls(
        small_decoder(type, {{"num_key_value_heads", nullptr}, {"head_dim", nullptr}}));
    EXPECT_EQ(nulls.layers.at(0).key_value_heads, 8) << type;
    EXPECT_EQ(nulls.layers.at(0).head_size, 64 / 8) << type;
  }
  EXPECT_TRUE(DecoderAttention(small_decoder("qwen2", json::object()))
                  .has_parameter("model.layers.0.self_attn.q_proj.bias"));
}

TEST(DecoderAttention, MistralHasAWindowUnlessItIsNull) {
  EXPECT_EQ(DecoderAttention(small_decoder("mistral", json::object())).masks(),
            std::vector<AttentionMask>(3, AttentionMask::sliding_window(4096)));
  EXPECT_EQ(DecoderAttention(small_decoder("mistral", {{"sliding_window", nullptr}})).masks(), kThreeCausal);
}

TEST(DecoderAttention, QwenHasWindowsWhereItAsksForThem) {
  const auto masks = [](json more, const json& added = json::object()) {
    more.update(added);
    return DecoderAttention(small_decoder("qwen2", more)).masks();
  };
  const json config = {{"sliding_window", 8}, {"max_window_layers", 1}};
  EXPECT_EQ(masks(config), kThreeCausal);
  json windows = config;
  windows["use_sliding_window"] = true;
  const AttentionMask window = AttentionMask::sliding_window(8);
  EXPECT_EQ(masks(windows), (std::vector{AttentionMask::causal(), window, window}));
  EXPECT_EQ(masks(windows, {{"layer_types", {"sliding_attention", "full_attention", "full_attention"}}}),
            (std::vector{window, AttentionMask::causal(), AttentionMask::causal()}));
  EXPECT_EQ(masks(windows, {{"sliding_window", nullptr}}), kThreeCausal);
  for (const json& types : {json("full_attention"), json({"full_attention"}),
                            json({"full_attention", "linear_attention", "full_attention"})})
    EXPECT_THROW(masks(windows, {{"layer_types", types}}), UserError) << types;
  // A window that nothing says is no window of transformers' either.
  const json sliding = {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}};
  for (json without : {config, windows}) {
    without["sliding_window"] = nullptr;
    EXPECT_THROW(masks(without, sliding), UserError);
  }
  EXPECT_THROW(masks(config, sliding), UserError) << "use_sliding_window is false";
}

}  // namespace
}  // namespace shoehorn
