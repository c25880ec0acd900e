// Decoders' config.json: heads, what is refused, ropes; and the keys of every architecture that may be overridden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
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
  for (const char* decoder : {"gpt2", "qwen3"})
    EXPECT_EQ(head_of({{"model_type", decoder}}), Head::kCausalLanguageModel);
  EXPECT_EQ(head_of({{"model_type", "distilbert"}}), Head::kSequenceClassification);
  for (const json& none : {json(nullptr), json::array()}) {
    EXPECT_EQ(head_of({{"model_type", "llama"}, {"architectures", none}}), Head::kCausalLanguageModel);
    EXPECT_EQ(head_of({{"model_type", "bert"}, {"architectures", none}}), Head::kSequenceClassification);
  }
  for (const json& others :
       {json::object(), json({{"architectures", json::array()}}), json({{"architectures", 3}}),
        json({{"architectures", {"LlamaForSequenceClassification"}}}), json(nullptr)}) {
    EXPECT_EQ(head_of(others), Head::kSequenceClassification) << others;
  }
}

TEST(DecoderConfig, AClassOfNeitherHeadIsToldWithTheTaskThatHelps) {
  const auto notices = [](const char* type, const json& classes, std::optional<Head> head = {}) {
    return model_of_config({{"model_type", type}, {"architectures", classes}}, "m/config.json", head)
        ->notices();
  };
  for (const auto& [type, classes] : {std::pair<const char*, json>{"llama", {"LlamaModel"}},
                                      {"gpt2", {"GPT2DoubleHeadsModel"}},
                                      {"qwen2", 3}}) {
    ASSERT_EQ(notices(type, classes).size(), 1U) << classes;
    EXPECT_EQ(notices(type, classes)[0],
              fmt::format("m/config.json: 'architectures' is {}, which says no head: taken as a classifier; "
                          "--task causal-lm takes it as a language model",
                          classes.dump()));
    for (const Head head : {Head::kCausalLanguageModel, Head::kSequenceClassification})
      EXPECT_TRUE(notices(type, classes, head).empty()) << classes;
  }
  EXPECT_TRUE(notices("llama", {"LlamaForSequenceClassification"}).empty());
  EXPECT_TRUE(notices("llama", nullptr).empty());
  EXPECT_TRUE(notices("bert", {"BertModel"}).empty()) << "which has one head alone";
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
  for (const Architecture* architecture : kArchitectures) {
    const json quantized = {{"model_type", architecture->model_type}, {"quantization_config", {{"bits", 4}}}};
    const Head head = architecture->make_language_model != nullptr ? Head::kCausalLanguageModel
                                                                   : Head::kSequenceClassification;
    EXPECT_TRUE(contains(message_of<UserError>([&] { model_from_json(quantized, "m/config.json", head); }),
                         "[m/config.json] expected no 'quantization_config'"))
        << quantized;
  }
  for (const char* type : {"linear", "yarn"}) {
    EXPECT_TRUE(contains(refusal(with(llama, "rope_scaling", {{"type", type}})),
                         "expected 'factor' in 'rope_scaling', got none"));
  }
  EXPECT_TRUE(contains(refusal(with(llama, "partial_rotary_factor", 0.5)),
                       "'partial_rotary_factor' to be 1, got 0.5"));
  EXPECT_TRUE(
      contains(refusal(with(llama, "rope_parameters", {{"full_attention", {{"rope_type", "default"}}}})),
               "an object at 'full_attention'"));
  EXPECT_TRUE(contains(refusal(with(llama, "pad_token_id", -2)), "'pad_token_id' to be null, -1 or a token"));
  EXPECT_TRUE(contains(refusal({{"model_type", "gpt2"}, {"n_embd", 24}, {"hidden_size", 36}}),
                       "'hidden_size' and 'n_embd', which are the same, to be alike, got 36 and 24"));
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
  EXPECT_TRUE(
      contains(refusal(with(llama, "rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"truncate", 0}})),
               "'truncate' of 'rope_scaling' to be true or false, got 0"));
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
}

// As transformers 5 writes them, beside the rope's type.
TEST(DecoderConfig, AKeyIsSetWhereTheRopeHasIt) {
  const auto theta_of = [](json config) {
    set_config_key(config, "rope_theta", 10000);
    const Rotary rotary = rotary_from_json(config, {.head_size = 4, .max_positions = 64, .theta = 100}, "c");
    return std::pair(rotary.frequencies.frequencies, config);
  };
  for (const char* rope : {"rope_parameters", "rope_scaling"}) {
    const json nested = {{rope, {{"rope_type", "default"}, {"rope_theta", 500}}}};
    for (const json& config :
         {json::object(), json({{"rope_theta", 500}}), nested, with(nested, "rope_theta", 500),
          json({{rope, {{"rope_type", "default"}}}}), json({{rope, nullptr}})}) {
      const auto [frequencies, changed] = theta_of(config);
      EXPECT_EQ(frequencies, (std::vector<float>{1.0F, 0.01F})) << config;
      EXPECT_EQ(changed.dump().find("500"), std::string::npos) << changed;
    }
    EXPECT_FALSE(theta_of(nested).second.contains("rope_theta"));
  }
}

// transformers' attribute_map: a config may have either name.
TEST(DecoderConfig, KeysHaveTheirSecondNames) {
  const json first = {
      {"model_type", "gpt2"}, {"n_embd", 24}, {"n_layer", 1}, {"n_head", 2}, {"n_positions", 16}};
  const json second = {{"model_type", "gpt2"},
                       {"hidden_size", 24},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},
                       {"max_position_embeddings", 16}};
  const auto written = [](const json& config) {
    return parse_json(model_from_json(config, "c", Head::kCausalLanguageModel)->config_json(), "config.json");
  };
  EXPECT_EQ(written(first), written(second));
  json both = first;
  both.update(second);
  EXPECT_EQ(written(both), written(first)) << "they agree";
}

// Configs often have the positions of before the stretching.
TEST(DecoderConfig, StretchedPositionsMayBeUsed) {
  const auto most = [](const json& rope) {
    return rotary_from_json({{"rope_scaling", rope}}, {.head_size = 4, .max_positions = 64}, "c")
        .max_positions;
  };
  EXPECT_EQ(most({{"type", "linear"}, {"factor", 4.0}}), 256);
  EXPECT_EQ(most({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}}), 256);
  EXPECT_EQ(most({{"type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 16}}), 64)
      << "not less than the config says";
  EXPECT_EQ(most({{"type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}}), 64);
  EXPECT_EQ(most({{"type", "default"}}), 64);
}

// To the last bit or the one before of what transformers computes in float32: real shapes, every type.
TEST(DecoderConfig, FrequenciesAreTransformers) {
  const json golden =
      read_json(std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/rotary_frequencies.json");
  ASSERT_GT(golden.size(), 8U);
  for (const auto& [name, row] : golden.items()) {
    const Rotary rotary = rotary_from_json(
        row.at("config"), {.head_size = row.at("head_size"), .max_positions = row.at("max_positions")}, name);
    const RotaryFrequencies ours = rotary.for_length(row.at("length"));
    EXPECT_FLOAT_EQ(ours.attention_factor, row.at("attention_factor").get<float>()) << name;
    const auto theirs = row.at("frequencies").get<std::vector<float>>();
    ASSERT_EQ(ours.frequencies.size(), theirs.size()) << name;
    for (size_t i = 0; i < theirs.size(); ++i) {
      const float next = std::nextafter(theirs[i], 1.0F), before = std::nextafter(theirs[i], 0.0F);
      EXPECT_GE(ours.frequencies[i], before) << name << " " << i;
      EXPECT_LE(ours.frequencies[i], next) << name << " " << i;
    }
  }
}

TEST(DecoderConfig, LongropeTakesItsLongFactorsBeyondTheOriginalPositions) {
  const json config = {
      {"original_max_position_embeddings", 16},
      {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0, 2.0}}, {"long_factor", {3.0, 4.0}}}}};
  const Rotary rotary = rotary_from_json(config, {.head_size = 4, .max_positions = 64, .theta = 100}, "c");
  EXPECT_EQ(rotary.max_positions, 64);
  EXPECT_EQ(rotary.for_length(1).frequencies, (std::vector<float>{1.0F, 0.05F}));
  EXPECT_EQ(rotary.for_length(16).frequencies, (std::vector<float>{1.0F, 0.05F}));
  EXPECT_EQ(rotary.for_length(17).frequencies, (std::vector<float>{1.0F / 3, 0.025F}));
  EXPECT_EQ(rotary.for_length(64).frequencies, (std::vector<float>{1.0F / 3, 0.025F}));
  for (const int64_t length : {16, 17})
    EXPECT_FLOAT_EQ(rotary.for_length(length).attention_factor,
                    std::sqrt(1.0F + std::log(4.0F) / std::log(16.0F)));
  json both_places = config;
  both_places["rope_scaling"]["original_max_position_embeddings"] = 32;
  EXPECT_EQ(
      rotary_from_json(both_places, {.head_size = 4, .max_positions = 64, .theta = 100}, "c").short_positions,
      16)
      << "the config's own key wins";
  for (const char* missing : {"short_factor", "long_factor"}) {
    json lacking = config;
    lacking["rope_scaling"].erase(missing);
    EXPECT_TRUE(contains(
        message_of<UserError>([&] { rotary_from_json(lacking, {.head_size = 4, .max_positions = 64}, "c"); }),
        fmt::format("'{}' of 'rope_scaling' to be a list of 2 numbers, got null", missing)));
  }
}

// The base grows by (factor · T / P - (factor - 1))^(D / (D - 2)): here 2 · 96 / 64 - 1 = 2, squared.
TEST(DecoderConfig, DynamicRopeStretchesTheBaseBeyondTheConfigsPositions) {
  const json config = {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}};
  const Rotary rotary = rotary_from_json(config, {.head_size = 4, .max_positions = 64, .theta = 100}, "c");
  EXPECT_EQ(rotary.for_length(1).frequencies, (std::vector<float>{1.0F, 0.1F}));
  EXPECT_EQ(rotary.for_length(64).frequencies, (std::vector<float>{1.0F, 0.1F}));
  EXPECT_EQ(rotary.for_length(96).frequencies, (std::vector<float>{1.0F, 0.05F}));
  EXPECT_LT(rotary.for_length(65).frequencies[1], 0.1F);
  EXPECT_GT(rotary.max_positions, 1000000);
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         rotary_from_json(config, {.head_size = 2, .max_positions = 64, .theta = 100}, "c");
                       }),
                       "more than 2 rotary dimensions"));
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         rotary_from_json({{"rope_scaling", {{"type", "dynamic"}}}},
                                          {.head_size = 4, .max_positions = 64}, "c");
                       }),
                       "expected 'factor' in 'rope_scaling'"));
}

// A length that nobody gave stays within the config's positions.
TEST(DecoderConfig, AModelOfDynamicRopeSaysTheConfigsPositions) {
  const json config = {{"model_type", "llama"},
                       {"max_position_embeddings", 64},
                       {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}};
  for (const Head head : {Head::kCausalLanguageModel, Head::kSequenceClassification}) {
    const auto model = model_from_json(config, "c", head);
    EXPECT_EQ(model->max_position_embeddings(), 64);
    EXPECT_GT(model->max_positions(), 1000000);
  }
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

// The keys that a file asks a reader for.
std::set<std::string> keys_read_in(const std::string& file) {
  const std::regex read(
      R"re((?:reader|ConfigReader\(\w+, \w+\))\.(?:size|count|number|flag|activation|expect_false)\(\s*"(\w+)")re");
  std::ifstream opened(std::filesystem::path(SHOEHORN_SOURCE_DIR) / "src/models" / file);
  EXPECT_TRUE(opened) << file;
  std::stringstream text;
  text << opened.rdbuf();
  const std::string source = text.str();
  std::set<std::string> keys;
  for (std::sregex_iterator match(source.begin(), source.end(), read), end; match != end; ++match)
    keys.insert((*match)[1].str());
  return keys;
}

// A config of the type that makes its reader ask for every key.
json asking_config(const std::string& type) {
  if (type == "gpt2" || type.ends_with("bert")) return {{"model_type", type}};
  return {{"model_type", type},
          {"use_sliding_window", true},
          {"rope_scaling",
           {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}}};
}

// --config_overrides may set what an architecture reads, and nothing else.
TEST(DecoderConfig, TheKeysOfAnArchitectureAreThoseThatItReads) {
  const std::set<std::string> of_generation = {"bos_token_id", "eos_token_id"};
  for (const Architecture* architecture : kArchitectures) {
    const std::string type(architecture->model_type);
    const std::vector<std::string> list = config_key_names({{"model_type", type}});
    const std::set<std::string> names(list.begin(), list.end());
    EXPECT_EQ(names.size(), list.size()) << type;
    std::set<std::string> read = keys_read_in(type + ".cc");
    if (type != "gpt2" && !type.ends_with("bert")) read.merge(keys_read_in("llama.cc"));
    if (type.starts_with("qwen")) read.merge(keys_read_in("qwen_masks.cc"));
    if (type != "llama" && type != "qwen3")
      read.erase("attention_bias");  // llama.cc has Llama's own keys, too
    if (type != "llama") read.erase("mlp_bias");
    for (const std::string& key : read) EXPECT_TRUE(names.contains(key)) << key << " of " << type;
    EXPECT_GT(read.size(), 8U) << type;
    for (const std::string& name : names) {
      if (of_generation.contains(name)) continue;
      json nonsense = asking_config(type);
      nonsense[name] = json::array({json::array()});
      EXPECT_THROW(model_from_json(nonsense, "c"), UserError)
          << name << " of " << type << " is read by nothing";
    }
  }
  EXPECT_TRUE(config_key_names({{"model_type", "t5"}}).empty());
}

}  // namespace
}  // namespace shoehorn
