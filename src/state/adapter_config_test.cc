// adapter_config.json: what is read of PEFT's, what is refused, and that what is written is read again.
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// As PEFT 0.21 writes it, every key.
const char* const kPeftConfig = R"({
  "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
  "base_model_name_or_path": "base", "bias": "none", "corda_config": null, "ensure_weight_tying": false,
  "eva_config": null, "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
  "init_lora_weights": true, "kasa_config": null, "layer_replication": null, "layers_pattern": null,
  "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16, "lora_bias": false, "lora_dropout": 0.1,
  "lora_ga_config": null, "megatron_config": null, "megatron_core": "megatron.core",
  "modules_to_save": ["classifier", "score"], "monteclora_config": null, "peft_type": "LORA",
  "peft_version": "0.21.2", "qalora_group_size": 16, "r": 8, "rank_pattern": {}, "revision": null,
  "runtime_config": {"ephemeral_gpu_offload": false}, "target_modules": ["value", "query", "q_proj"],
  "target_parameters": null, "task_type": "SEQ_CLS", "trainable_token_indices": null, "use_bdlora": null,
  "use_dora": false, "use_qalora": false, "use_rslora": false, "velora_config": null})";

class AdapterConfigTest : public testing::Test {
 protected:
  AdapterConfigTest() {
    write_tensors({"encoder.query.lora_A.weight", "encoder.value.lora_A.weight", "classifier.bias"});
  }

  void write_tensors(const std::vector<std::string>& names,
                     const std::string& prefix = "base_model.model.") const {
    std::vector<TensorSpec> specs;
    for (const std::string& name : names) specs.push_back({prefix + name, DType::kF32, {1}});
    SafetensorsWriter writer(directory_.path() / kAdapterWeightsName, specs);
    const float zero = 0;
    for (const TensorSpec& spec : specs) writer.append(spec.name, std::as_bytes(std::span(&zero, 1)));
    writer.commit();
  }
  AdapterConfig read(const std::function<void(json&)>& change = {}) const {
    json config = parse_json(kPeftConfig, "config.json");
    if (change) change(config);
    write_json_atomic(directory_.path() / kAdapterConfigName, config);
    return read_adapter_config(directory_.path());
  }
  std::string refusal(const std::function<void(json&)>& change) const {
    return message_of<UserError>([&] { read(change); });
  }

  const TestDirectory directory_;
};

TEST_F(AdapterConfigTest, PeftsIsRead) {
  EXPECT_FALSE(is_adapter_directory(directory_.path()));
  const AdapterConfig config = read();
  EXPECT_TRUE(is_adapter_directory(directory_.path()));
  EXPECT_EQ(config.base_model_name_or_path, "base");
  EXPECT_EQ(config.lora.rank, 8);
  EXPECT_EQ(config.lora.alpha, 16);
  EXPECT_EQ(config.lora.dropout, 0.1F);
  // Names that found no module have no tensors.
  EXPECT_EQ(config.lora.targets, (std::vector<std::string>{"value", "query"}));
  EXPECT_EQ(config.lora.modules_to_save, std::vector<std::string>{"classifier"});
}

// PEFT sets it by the class of the layer, whatever the file says.
TEST_F(AdapterConfigTest, TheOrderOfAWeightsDimensionsIsTheModels) {
  for (const json& order : {json(true), json(false), json()})
    EXPECT_EQ(read([&](json& c) { c["fan_in_fan_out"] = order; }).lora.rank, 8);
  for (const bool is_transposed : {false, true}) {
    AdapterSet adapters;
    adapters.list = {{.weight = {}, .a = {}, .b = {}, .is_transposed = is_transposed}};
    write_adapter_config(directory_.path(), directory_.path() / "base", {.rank = 3}, adapters);
    EXPECT_EQ(read_json(directory_.path() / kAdapterConfigName).at("fan_in_fan_out"), is_transposed);
  }
}

// Otherwise PEFT's model has the two apart.
TEST_F(AdapterConfigTest, ATableThatIsTheHeadIsTied) {
  write_tensors({"encoder.query.lora_A.weight", "model.embed_tokens.weight", "lm_head.weight"});
  const std::map<std::string, std::string> tied = {{"model.embed_tokens.weight", "lm_head.weight"}};
  const auto config_of = [&](const json& modules, const json& tying) {
    return read([&](json& c) {
      c["modules_to_save"] = modules;
      c["ensure_weight_tying"] = tying;
    });
  };
  for (const json& modules : {json::array({"embed_tokens"}), json::array({"lm_head"}),
                              json::array({"model.embed_tokens", "lm_head"})}) {
    for (const json& tying : {json(false), json()}) {
      const AdapterConfig config = config_of(modules, tying);
      EXPECT_FALSE(config.ensure_weight_tying);
      EXPECT_TRUE(contains(
          message_of<UserError>([&] { check_weight_tying(directory_.path(), config, tied); }),
          fmt::format(
              "adapter_config.json: ensure_weight_tying] expected true for '{}' of modules_to_save, since "
              "model.embed_tokens.weight of the base model is lm_head.weight too",
              modules[0].get<std::string>())));
      EXPECT_NO_THROW(check_weight_tying(directory_.path(), config, {})) << "the base has both";
    }
    const AdapterConfig config = config_of(modules, true);
    EXPECT_TRUE(config.ensure_weight_tying);
    EXPECT_NO_THROW(check_weight_tying(directory_.path(), config, tied));
  }
  EXPECT_NO_THROW(check_weight_tying(directory_.path(), config_of(nullptr, false), tied));
}

TEST_F(AdapterConfigTest, TyingIsWrittenWhereItIsNeeded) {
  for (const bool ties : {true, false}) {
    AdapterSet adapters;
    adapters.ensure_weight_tying = ties;
    write_adapter_config(directory_.path(), directory_.path() / "base", {.rank = 3}, adapters);
    EXPECT_EQ(read_json(directory_.path() / kAdapterConfigName).value("ensure_weight_tying", false), ties);
  }
}

TEST_F(AdapterConfigTest, NothingSavedWholeIsNone) {
  for (const json& nothing : {json(), json::array(), json::array({"score"})}) {
    EXPECT_EQ(read([&](json& c) { c["modules_to_save"] = nothing; }).lora.modules_to_save,
              std::vector<std::string>{"none"});
  }
}

TEST_F(AdapterConfigTest, WhatChangesTheComputationIsRefusedByName) {
  const std::vector<std::pair<std::string, json>> changes = {{"use_dora", true},
                                                             {"use_rslora", true},
                                                             {"lora_bias", true},
                                                             {"use_qalora", true},
                                                             {"bias", "all"},
                                                             {"rank_pattern", {{"query", 4}}},
                                                             {"alpha_pattern", {{"query", 4}}},
                                                             {"layers_to_transform", {0, 1}},
                                                             {"exclude_modules", {"value"}},
                                                             {"trainable_token_indices", {1}},
                                                             {"layer_replication", {{0, 1}}},
                                                             {"init_lora_weights", "pissa"},
                                                             {"peft_type", "IA3"},
                                                             {"something_new", 3}};
  for (const auto& [key, value] : changes) {
    const std::string message = refusal([&](json& c) { c[key] = value; });
    EXPECT_TRUE(contains(message, "adapter_config.json: " + key + "]"));
    EXPECT_TRUE(contains(message, "got " + value.dump()));
  }
}

TEST_F(AdapterConfigTest, MalformedValuesAreRefusedByName) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{{"r", 0},
                                                                            {"r", 65537},
                                                                            {"r", UINT64_MAX},
                                                                            {"r", 8.5},
                                                                            {"r", nullptr},
                                                                            {"lora_alpha", "much"},
                                                                            {"lora_alpha", 0},
                                                                            {"lora_dropout", 1},
                                                                            {"target_modules", ".*query"},
                                                                            {"target_modules", {1}},
                                                                            {"ensure_weight_tying", "yes"},
                                                                            {"modules_to_save", "classifier"},
                                                                            {"base_model_name_or_path", 1}}) {
    EXPECT_TRUE(contains(refusal([&](json& c) { c[key] = value; }), "adapter_config.json: " + key + "]"));
  }
  write_json_atomic(directory_.path() / kAdapterConfigName, json::array());
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { read_adapter_config(directory_.path()); }), "expected an object"));
}

TEST_F(AdapterConfigTest, TensorsOfAnotherFormAreRefused) {
  write_tensors({"encoder.query.lora_A.weight"}, "model.");
  EXPECT_TRUE(contains(refusal([](json&) {}), "base_model.model."));
  write_tensors({"encoder.key.lora_A.weight"});
  EXPECT_TRUE(
      contains(refusal([](json&) {}), "adapter_model.safetensors] expected tensors of low-rank adapters"));
  fs::remove(directory_.path() / kAdapterWeightsName);
  EXPECT_TRUE(contains(refusal([](json&) {}), "adapter_model.safetensors"));
}

TEST_F(AdapterConfigTest, TheBaseIsFoundBesideTheAdapterOrByItsPath) {
  const fs::path adapter = directory_.path() / "adapter";
  fs::create_directories(adapter);
  fs::create_directories(directory_.path() / "base");
  const auto base = [&](const std::string& name) {
    return base_model_directory(adapter, {.base_model_name_or_path = name, .lora = {}});
  };
  EXPECT_TRUE(fs::equivalent(base("../base"), directory_.path() / "base"));
  EXPECT_TRUE(fs::equivalent(base((directory_.path() / "base").string()), directory_.path() / "base"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { base("bert-base-nowhere"); }), "got 'bert-base-nowhere'"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { base(""); }), "base_model_name_or_path] expected"));
}

TEST_F(AdapterConfigTest, WhatIsWrittenIsReadAgain) {
  AdapterSet adapters;
  adapters.target_modules = {"query", "value"};
  adapters.modules_to_save = {"classifier"};
  const LoraOptions options{.rank = 3, .alpha = 7.5F, .dropout = 0.25F, .targets = {}, .modules_to_save = {}};
  adapters.task_type = "CAUSAL_LM";
  write_adapter_config(directory_.path(), directory_.path() / "x/../base", options, adapters);
  EXPECT_EQ(read_json(directory_.path() / kAdapterConfigName).at("task_type"), "CAUSAL_LM");
  const AdapterConfig config = read_adapter_config(directory_.path());
  EXPECT_EQ(config.base_model_name_or_path, fs::absolute(directory_.path() / "base").string());
  EXPECT_EQ(config.lora.rank, 3);
  EXPECT_EQ(config.lora.alpha, 7.5F);
  EXPECT_EQ(config.lora.dropout, 0.25F);
  EXPECT_EQ(config.lora.targets, adapters.target_modules);
  EXPECT_EQ(config.lora.modules_to_save, adapters.modules_to_save);
}

}  // namespace
}  // namespace shoehorn
