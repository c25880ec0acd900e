// Language models: what calls itself exact leaves every bit of four AdamW steps with dropout, of losses, norms and weights. The
// models have what encoders lack: a table that is the head, grouped keys, norms of heads, a window of attention that is shorter
// than a text, biases of queries, keys and values alone, texts packed into blocks.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "models/registry.h"
#include "train/test_support.h"

// A namespace, since tests of encoders have helpers of the same names, and files compile together.
namespace shoehorn::decoder_exactness {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

constexpr int64_t kVocabularySize = 61;

json config_of(const std::string& name) {
  if (name == "gpt2_tied") {
    return {{"model_type", "gpt2"}, {"vocab_size", kVocabularySize},
            {"n_embd", 24},         {"n_layer", 2},
            {"n_head", 2},          {"n_positions", 32}};
  }
  json config = {{"model_type", name.substr(0, name.find('_'))},
                 {"vocab_size", kVocabularySize},
                 {"hidden_size", 24},
                 {"intermediate_size", 40},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"attention_dropout", 0.1},
                 {"max_position_embeddings", 32},
                 {"tie_word_embeddings", name.ends_with("_tied")}};
  if (name != "qwen2_tied")
    config["head_dim"] = 8;  // Qwen2 has none: the width is that of the heads together
  if (name == "mistral_window") config["sliding_window"] = 3;
  return config;
}

// Blocks of up to three texts each, whose positions begin anew.
Dataset packed_texts(int64_t blocks) {
  std::mt19937 generator(5);
  Dataset::Rows ids, positions;
  for (int64_t block = 0; block < blocks; ++block) {
    ids.emplace_back();
    positions.emplace_back();
    for (int text = 0; text < 3; ++text) {
      const int64_t length = 1 + static_cast<int64_t>(generator() % 7);
      for (int64_t at = 0; at < length; ++at) {
        ids.back().push_back(static_cast<int64_t>(generator() % kVocabularySize));
        positions.back().push_back(at);
      }
    }
  }
  return Dataset::next_token(Dataset::from_columns({{"input_ids", ids}, {"position_ids", positions}}));
}

struct Trained {
  std::vector<double> losses, norms;
  NamedWeights weights;
};

Trained train(const std::string& name, const TrainingArguments& args) {
  const std::unique_ptr<Model> model = model_from_json(config_of(name), name, Head::kCausalLanguageModel);
  Trainer trainer(*model, args, packed_texts(16));
  trainer.train();
  return {logged(trainer.state(), "loss"), logged(trainer.state(), "grad_norm"),
          weights_of(trainer.session())};
}

struct DecoderCase {
  std::string name;
  std::function<void(TrainingArguments&)> base;     // both sides
  std::function<void(TrainingArguments&)> changed;  // one side
};

void PrintTo(const DecoderCase& exact, std::ostream* out) {
  *out << exact.name;
}

void nothing(TrainingArguments&) {}
void no_clipping(TrainingArguments& args) {
  args.max_grad_norm = 0;
}
void layer_major(TrainingArguments& args) {
  args.per_device_train_batch_size = 2;
  args.gradient_accumulation_steps = 2;
  args.accumulation_order = "layer_major";
}
// The fewest bytes: states of 8 bits, those of the table too, and in bf16 no masters.
void eight_bits(TrainingArguments& args) {
  no_clipping(args);
  args.optim = "adamw_8bit";
  args.optim_args = {{"embedding_bits", int64_t{8}}, {"min_8bit_size", int64_t{64}}};
  if (args.bf16) args.master_weights = "none";
}
void adapters(TrainingArguments& args) {
  args.lora_rank = 4;
  args.lora_dropout = 0.1;
  args.lora_target = {"all-linear"};
}
void recompute(TrainingArguments& args) {
  args.gradient_checkpointing = true;
}
void half_the_activations(TrainingArguments& args) {
  args.activation_budget = "0.5";
}
void least_activations(TrainingArguments& args) {
  args.activation_budget = "0";
}
void update_in_backward(TrainingArguments& args) {
  args.update_in_backward = true;
}
void without_rematerialize(TrainingArguments& args) {
  args.skip_pass = {"rematerialize"};
}
void without_fused_updates(TrainingArguments& args) {
  args.skip_pass = {"fuse_update"};
}

const std::vector<DecoderCase> kCases = {
    {"recompute", nothing, recompute},
    {"recompute_layer_major", layer_major, recompute},
    {"activation_budget_of_half", nothing, half_the_activations},
    {"activation_budget_of_least", nothing, least_activations},
    {"activation_budget_layer_major", layer_major, half_the_activations},
    {"rematerialize", nothing, without_rematerialize},
    {"fuse_update", nothing, without_fused_updates},
    {"fuse_update_8bit", eight_bits, without_fused_updates},
    {"update_in_backward", no_clipping, update_in_backward},
    {"update_in_backward_8bit", eight_bits, update_in_backward},
    {"update_in_layer_major_backward",
     [](TrainingArguments& args) {
       layer_major(args);
       no_clipping(args);
     },
     update_in_backward},
    {"adapters_recompute", adapters, recompute},
    {"adapters_activation_budget", adapters, half_the_activations},
};

class DecoderExactness : public testing::TestWithParam<std::tuple<const char*, DecoderCase>> {};

TEST_P(DecoderExactness, FourStepsAreBitIdentical) {
  const auto& [name, exact] = GetParam();
  for (const bool bf16 : {false, true}) {
    SCOPED_TRACE(bf16 ? "bf16" : "fp32");
    TrainingArguments args = quiet_arguments(4);
    args.max_steps = 4;
    args.learning_rate = 1e-3;
    args.weight_decay = 0.01;
    args.bf16 = bf16;
    exact.base(args);
    const Trained off = train(name, args);
    EXPECT_NE(off.losses.front(), off.losses.back());
    exact.changed(args);
    const Trained on = train(name, args);
    EXPECT_EQ(on.losses, off.losses);
    EXPECT_EQ(on.norms, off.norms);
    ASSERT_EQ(on.weights.size(), off.weights.size());
    for (const auto& [parameter, values] : off.weights)
      EXPECT_TRUE(on.weights.at(parameter) == values) << parameter << " differs";
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DecoderExactness,
                         testing::Combine(testing::Values("gpt2_tied", "llama_untied", "qwen3_tied",
                                                          "qwen2_tied", "mistral_window"),
                                          testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace shoehorn::decoder_exactness
