#include "models/registry.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/error_testing.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "model/model.h"

namespace shoehorn {
namespace {

using nlohmann::json;
using namespace testing;

std::string architecture_of(const Model& model) {
  return parse_json(model.config_json(), "config.json")["architectures"][0];
}

TEST(Registry, TheModelTypeChoosesTheArchitecture) {
  EXPECT_EQ(architecture_of(*model_from_json({{"model_type", "bert"}}, "config.json")),
            "BertForSequenceClassification");
  EXPECT_EQ(architecture_of(*model_from_json({{"model_type", "distilbert"}}, "config.json")),
            "DistilBertForSequenceClassification");
  EXPECT_EQ(architecture_of(*model_from_json(json::object(), "config.json")),
            "BertForSequenceClassification");
}

TEST(Registry, AnUnknownModelTypeIsRefusedWithTheKnownOnes) {
  for (const json& type : {json("t5"), json(3), json(nullptr)}) {
    EXPECT_TRUE(contains(
        message_of<UserError>([&] { model_from_json({{"model_type", type}}, "m/config.json"); }),
        "[m/config.json] expected 'model_type' to be one of bert, distilbert, gpt2, llama, mistral, qwen2, qwen3, got " +
            type.dump()))
        << type;
  }
  EXPECT_TRUE(
      contains(message_of<UserError>([] { model_from_json(json::array(), "c"); }), "expected a JSON object"));
}

TEST(Registry, AutoModelReadsADirectory) {
  const TestDirectory directory;
  directory.write("config.json", R"({"model_type": "distilbert", "n_layers": 1})");
  EXPECT_THROW(AutoModelForSequenceClassification::from_pretrained(directory.path()), UserError)
      << "no weights";
  const auto model = AutoModelForSequenceClassification::from_config(directory.path() / "config.json");
  EXPECT_EQ(architecture_of(*model), "DistilBertForSequenceClassification");
  EXPECT_TRUE(model->weights_directory().empty());
}

TEST(Registry, EveryShapeIsAModelThatItsConfigDescribes) {
  for (const std::string& name : shape_names()) {
    const auto model = model_of_shape(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_GT(model->hidden_size(), 0) << name;
    EXPECT_EQ(model->product_sizes()[0].size, model->hidden_size()) << name;
    const json config = parse_json(model->config_json(), "config.json");
    const auto again = model_from_json(config, name, head_of(config));
    EXPECT_EQ(again->config_json(), model->config_json()) << name;
    EXPECT_EQ(again->labels(), model->labels()) << name;
  }
  EXPECT_EQ(model_of_shape("bert-huge"), nullptr);
  EXPECT_EQ(architecture_of(*model_of_shape("gpt2")), "GPT2LMHeadModel");
  EXPECT_EQ(architecture_of(*model_of_shape("gpt2", Head::kSequenceClassification)),
            "GPT2ForSequenceClassification");
  EXPECT_TRUE(contains(message_of<UserError>([] { model_of_shape("bert-base", Head::kCausalLanguageModel); }),
                       "for a language model, got \"bert\""));
}

TEST(DistilBertConfig, WhatItCannotComputeIsRefused) {
  const auto with_type = [](json config) {
    config["model_type"] = "distilbert";
    return config;
  };
  const auto refusal = [&](const json& config) {
    return message_of<UserError>([&] { model_from_json(with_type(config), "config.json"); });
  };
  EXPECT_TRUE(contains(refusal({{"sinusoidal_pos_embds", true}}), "'sinusoidal_pos_embds' to be false"));
  EXPECT_TRUE(
      contains(refusal({{"dim", 10}, {"n_heads", 3}}), "'dim' to be a multiple of 'n_heads', got 10 and 3"));
  EXPECT_TRUE(contains(refusal({{"problem_type", "ranking"}}), "'problem_type'"));
  EXPECT_TRUE(contains(refusal({{"activation", "mish"}}), "'activation' to be one of"));
  EXPECT_TRUE(contains(refusal({{"n_layers", 0}}), "'n_layers'"));
}

// Keys that the computation does not read are kept; the classes are written over.
TEST(DistilBertConfig, IsWrittenBackWhole) {
  const TestDirectory directory;
  directory.write("config.json",
                  R"({"model_type": "distilbert", "qa_dropout": 0.25, "dim": 24, "n_heads": 3})");
  const auto model = AutoModelForSequenceClassification::from_config(directory.path() / "config.json");
  model->set_labels({.names = {"no", "perhaps", "yes"}});
  const json written = parse_json(model->config_json(), "config.json");
  EXPECT_EQ(written["qa_dropout"], 0.25);
  EXPECT_EQ(written["dim"], 24);
  EXPECT_EQ(written["id2label"]["1"], "perhaps");
  EXPECT_EQ(written["label2id"]["yes"], 2);
  EXPECT_EQ(model->num_labels(), 3);
}

}  // namespace
}  // namespace shoehorn
