// Decoders' config.json: heads, defaults of each class, what is refused, ropes; and keys that may be overridden.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/error_testing.h"
#include "io/json_file.h"
#include "models/config_keys.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/registry.h"
#include "models/rotary_config.h"

namespace shoehorn {
namespace {

using nlohmann::json;
using namespace testing;

json with(json config, const char* key, const json& value) {
  config[key] = value;
  return config;
}

TEST(DecoderConfig, TheArchitecturesSayTheHead) {
  EXPECT_EQ(head_of({{"architectures", {"GPT2LMHeadModel"}}}), Head::kCausalLanguageModel);
  EXPECT_EQ(head_of({{"architectures", {"Qwen2ForCausalLM"}}}), Head::kCausalLanguageModel);
  for (const json& others :
       {json::object(), json({{"architectures", json::array()}}), json({{"architectures", 3}}),
        json({{"architectures", {"LlamaForSequenceClassification"}}}), json(nullptr)}) {
    EXPECT_EQ(head_of(others), Head::kSequenceClassification) << others;
  }
}

TEST(DecoderConfig, AnEncoderIsNoLanguageModel) {
  EXPECT_TRUE(contains(message_of<UserError>([] {
                         model_from_json({{"model_type", "bert"}}, "c", Head::kCausalLanguageModel);
                       }),
                       "one of gpt2, llama, mistral, qwen2, qwen3 for a language model, got \"bert\""));
}

TEST(DecoderConfig, AbsentKeysMeanTheDefaultsOfTheClass) {
  EXPECT_TRUE(Gpt2Config::from_json({{"model_type", "gpt2"}}, "c").tie_word_embeddings);
  const LlamaConfig llama = llama_from_json({{"model_type", "llama"}, {"num_attention_heads", 16}}, "c");
  EXPECT_FALSE(llama.tie_word_embeddings);
  EXPECT_EQ(llama.num_key_value_heads, 16) << "as many as heads";
  EXPECT_EQ(llama.head_dim, 4096 / 16);
  EXPECT_EQ(qwen3_from_json({{"model_type", "qwen3"}, {"hidden_size", 1024}}, "c").head_dim, 128);
  EXPECT_TRUE(qwen2_from_json({{"model_type", "qwen2"}}, "c").query_key_value_bias);
  const LlamaConfig mistral = mistral_from_json({{"model_type", "mistral"}, {"num_hidden_layers", 2}}, "c");
  ASSERT_EQ(mistral.masks.size(), 2U);
  EXPECT_EQ(mistral.masks[1], AttentionMask::sliding_window(4096));
  EXPECT_TRUE(mistral_from_json({{"model_type", "mistral"}, {"sliding_window", nullptr}}, "c").masks.empty());
}

TEST(DecoderConfig, QwenHasWindowsWhereItAsksForThem) {
  const json config = {
      {"model_type", "qwen2"}, {"num_hidden_layers", 3}, {"sliding_window", 8}, {"max_window_layers", 1}};
  const std::vector<AttentionMask> none(3, AttentionMask::causal());
  EXPECT_EQ(qwen2_from_json(config, "c").masks, none);
  const json windows = with(config, "use_sliding_window", true);
  const AttentionMask window = AttentionMask::sliding_window(8);
  EXPECT_EQ(qwen2_from_json(windows, "c").masks, (std::vector{AttentionMask::causal(), window, window}));
  const json listed = with(windows, "layer_types", {"sliding_attention", "full_attention", "full_attention"});
  EXPECT_EQ(qwen2_from_json(listed, "c").masks,
            (std::vector{window, AttentionMask::causal(), AttentionMask::causal()}));
  EXPECT_EQ(qwen2_from_json(with(windows, "sliding_window", nullptr), "c").masks, none);
  for (const json& types : {json("full_attention"), json({"full_attention"}),
                            json({"full_attention", "linear_attention", "full_attention"})})
    EXPECT_THROW(qwen2_from_json(with(windows, "layer_types", types), "c"), UserError) << types;
}

TEST(DecoderConfig, WhatCannotBeComputedIsRefusedByName) {
  const auto refusal = [](const json& config) {
    return message_of<UserError>(
        [&] { model_from_json(config, "m/config.json", Head::kCausalLanguageModel); });
  };
  const json llama = {{"model_type", "llama"}};
  EXPECT_TRUE(
      contains(refusal(with(llama, "quantization_config", {{"bits", 4}})), "no 'quantization_config'"));
  EXPECT_TRUE(contains(refusal(with(llama, "num_key_value_heads", 5)),
                       "multiple of 'num_key_value_heads', got 32 and 5"));
  EXPECT_TRUE(contains(refusal(with(llama, "hidden_size", 100)),
                       "multiple of 'num_attention_heads', got 100 and 32"));
  EXPECT_TRUE(contains(refusal(with(llama, "tie_word_embeddings", "yes")),
                       "'tie_word_embeddings' to be true or false"));
  EXPECT_TRUE(contains(refusal(with(llama, "rope_scaling", {{"rope_type", "spiral"}})),
                       "'rope_type' of 'rope_scaling'"));
  EXPECT_TRUE(contains(refusal(with(llama, "rope_scaling", {{"type", "llama3"}})),
                       "expected 'factor' in 'rope_scaling'"));
  EXPECT_TRUE(contains(refusal(with(llama, "rope_parameters", 3)), "'rope_parameters' to be an object"));
  EXPECT_TRUE(contains(refusal(with(llama, "hidden_act", "swoosh")), "'hidden_act'"));
  EXPECT_TRUE(
      contains(refusal({{"model_type", "gpt2"}, {"n_head", 7}}), "multiple of 'n_head', got 768 and 7"));
  EXPECT_TRUE(contains(refusal({{"model_type", "gpt2"}, {"add_cross_attention", true}}),
                       "'add_cross_attention' to be false"));
}

TEST(DecoderConfig, ALegacyRopeWinsAndThetaIsFoundInBothPlaces) {
  const auto rotary = [](const json& config) {
    return rotary_from_json(config, {.head_size = 4, .max_positions = 64, .theta = 100}, "c")
        .frequencies.frequencies;
  };
  const std::vector<float> standard = {1.0F, 0.1F};
  EXPECT_EQ(rotary(json::object()), standard);
  EXPECT_EQ(rotary({{"rope_theta", 10000}}), (std::vector<float>{1.0F, 0.01F}));
  EXPECT_EQ(rotary({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000}}}}),
            (std::vector<float>{1.0F, 0.01F}));
  const json both = {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}},
                     {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}};
  EXPECT_EQ(rotary(both), (std::vector<float>{0.25F, 0.025F}));
  EXPECT_EQ(rotary({{"rope_scaling", json::object()}}), standard) << "an empty one counts as none";
  EXPECT_EQ(rotary({{"partial_rotary_factor", 0.5}}), (std::vector<float>{1.0F}));
}

TEST(DecoderConfig, LongropeHoldsUpToItsOriginalPositions) {
  const json config = {
      {"original_max_position_embeddings", 16},
      {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0, 2.0}}, {"long_factor", {3.0, 4.0}}}}};
  const Rotary rotary = rotary_from_json(config, {.head_size = 4, .max_positions = 64, .theta = 100}, "c");
  EXPECT_EQ(rotary.max_positions, 16);
  EXPECT_EQ(rotary.frequencies.frequencies, (std::vector<float>{1.0F, 0.05F}));
  EXPECT_FLOAT_EQ(rotary.frequencies.attention_factor, std::sqrt(1.0F + std::log(4.0F) / std::log(16.0F)));
  EXPECT_THROW(rotary_from_json(with(config, "rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0}}}),
                                {.head_size = 4, .max_positions = 64}, "c"),
               UserError);
}

TEST(DecoderConfig, UnknownKeysStay) {
  const json config = {{"model_type", "llama"},
                       {"num_hidden_layers", 1},
                       {"a_key_of_tomorrow", {1, 2}},
                       {"torch_dtype", "bfloat16"}};
  for (const Head head : {Head::kCausalLanguageModel, Head::kSequenceClassification}) {
    const json written = parse_json(model_from_json(config, "c", head)->config_json(), "config.json");
    for (const auto& [key, value] : config.items()) EXPECT_EQ(written[key], value) << key;
  }
}

// Every key that a reader of this room asks for may be overridden.
TEST(DecoderConfig, TheListOfKeysHasThoseThatAreRead) {
  const std::vector<std::string>& names = config_key_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const std::regex read(
      R"re((?:reader|ConfigReader\(\w+, \w+\))\.(?:size|count|number|flag|activation|expect_false)\(\s*"(\w+)")re");
  int64_t found = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(SHOEHORN_SOURCE_DIR) / "src/models")) {
    if (entry.path().extension() != ".cc" || entry.path().string().ends_with("_test.cc")) continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator match(source.begin(), source.end(), read), end; match != end; ++match, ++found)
      EXPECT_TRUE(is_config_key((*match)[1].str())) << (*match)[1] << " in " << entry.path();
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace shoehorn
