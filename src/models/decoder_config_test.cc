// Decoders' config.json: heads, defaults of each class, what is refused, ropes; and keys that may be overridden.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error_testing.h"
#include "io/json_file.h"
#include "models/architecture_list.h"
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

// Every value that an architecture's reader asks for may be overridden, and of those of other files none.
TEST(DecoderConfig, TheKeysOfAnArchitectureAreThoseThatItReads) {
  const std::regex read(
      R"re((?:reader|ConfigReader\(\w+, \w+\))\.(?:size|count|number|flag|activation|expect_false)\(\s*"(\w+)")re");
  const std::filesystem::path room = std::filesystem::path(SHOEHORN_SOURCE_DIR) / "src/models";
  int64_t found = 0;
  for (const Architecture* architecture : kArchitectures) {
    const std::string type(architecture->model_type);
    const std::vector<std::string> names = config_key_names({{"model_type", type}});
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << type;
    std::ifstream file(room / (type + ".cc"));
    ASSERT_TRUE(file) << "the file of " << type;
    std::stringstream text;
    text << file.rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator match(source.begin(), source.end(), read), end; match != end; ++match, ++found)
      EXPECT_TRUE(std::binary_search(names.begin(), names.end(), (*match)[1].str()))
          << (*match)[1] << " of " << type;
    // These are read where others ask for them.
    const std::set<std::string> conditional = {"bos_token_id", "eos_token_id", "max_window_layers",
                                               "original_max_position_embeddings", "sliding_window"};
    for (const std::string& name : names) {
      if (conditional.contains(name)) continue;
      const json nonsense = {{"model_type", type}, {name, json::array({json::array()})}};
      EXPECT_ANY_THROW(model_from_json(nonsense, "c")) << name << " of " << type << " is read by nothing";
    }
  }
  EXPECT_GT(found, 50);
  EXPECT_TRUE(config_key_names({{"model_type", "t5"}}).empty());
}

}  // namespace
}  // namespace shoehorn
