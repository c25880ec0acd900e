// GPT-2 (Radford et al., 2019), as transformers' GPT2LMHeadModel and GPT2ForSequenceClassification.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/layers.h"
#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/decoder_architecture.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// The keys of config.json that the computation depends on, with transformers' defaults.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // feed-forward size; 0: 4 · n_embd
  Activation activation_function = Activation::kGeluTanh;
  float resid_pdrop = 0.1F;
  float embd_pdrop = 0.1F;
  float attn_pdrop = 0.1F;
  float layer_norm_epsilon = 1e-5F;
  float initializer_range = 0.02F;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;
  int64_t pad_token_id = -1;  // -1: none
};

Gpt2Config read_gpt2(const json& source, const std::string& file) {
  const ConfigReader reader(source, file);
  reader.expect_model_type("gpt2");
  reader.expect_false("add_cross_attention");
  Gpt2Config config;
  config.vocab_size = reader.size("vocab_size", config.vocab_size, kMaxRows);
  config.n_positions = reader.size("n_positions", config.n_positions, kMaxRows);
  config.n_embd = reader.size("n_embd", config.n_embd, kMaxColumns);
  config.n_layer = reader.size("n_layer", config.n_layer, kMaxLayers);
  config.n_head = reader.size("n_head", config.n_head, kMaxColumns);
  config.n_inner = reader.size("n_inner", 4 * config.n_embd, kMaxColumns);
  config.activation_function = reader.activation("activation_function", config.activation_function);
  config.resid_pdrop = reader.number("resid_pdrop", config.resid_pdrop, 0, 0.999F);
  config.embd_pdrop = reader.number("embd_pdrop", config.embd_pdrop, 0, 0.999F);
  config.attn_pdrop = reader.number("attn_pdrop", config.attn_pdrop, 0, 0.999F);
  config.layer_norm_epsilon = reader.number("layer_norm_epsilon", config.layer_norm_epsilon, 0, 1);
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3F);
  config.scale_attn_weights = reader.flag("scale_attn_weights", config.scale_attn_weights);
  config.scale_attn_by_inverse_layer_idx =
      reader.flag("scale_attn_by_inverse_layer_idx", config.scale_attn_by_inverse_layer_idx);
  config.tie_word_embeddings = reader.flag("tie_word_embeddings", config.tie_word_embeddings);
  // No row of the table is its own: it may be beyond the vocabulary.
  config.pad_token_id = reader.padding_token(config.pad_token_id, kMaxRows);
  reader.expect_multiple("n_embd", config.n_embd, "n_head", config.n_head);
  return config;
}

class Gpt2 final : public DecoderStack {
 public:
  explicit Gpt2(const Gpt2Config& config) : DecoderStack(facts_of(config)), config_(config) {}

  Tensor hidden_states(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    const auto table = [&](const char* name, int64_t rows) {
      return embedding_table(builder, fmt::format("transformer.{}", name), rows, config_.n_embd,
                             config_.initializer_range);
    };
    Tensor x = builder.embedding(table("wte", config_.vocab_size), builder.input(BatchColumn::kInputIds));
    x = builder.add_embedding(x, table("wpe", config_.n_positions), builder.input(BatchColumn::kPositionIds));
    x = builder.token_dropout(x, config_.embd_pdrop);
    for (int32_t layer = 0; layer < config_.n_layer; ++layer) x = block(builder, layer, x);
    return layer_norm_layer(builder, "transformer.ln_f", x, config_.layer_norm_epsilon);
  }

 private:
  static DecoderFacts facts_of(const Gpt2Config& config) {
    return {.model_type = "gpt2",
            .causal_class = "GPT2LMHeadModel",
            .classifier_class = "GPT2ForSequenceClassification",
            .base_model_prefix = "transformer",
            .embedding = "transformer.wte.weight",
            .vocab_size = config.vocab_size,
            .hidden_size = config.n_embd,
            .max_positions = config.n_positions,
            .max_position_embeddings = config.n_positions,
            .initializer_range = config.initializer_range,
            .ties_word_embeddings = config.tie_word_embeddings,
            .product_sizes = {{"hidden", config.n_embd},
                              {"feed-forward", inner(config)},
                              {"head", config.n_embd / config.n_head},
                              {"vocabulary", config.vocab_size}},
            .lora_targets = {"c_attn"},
            .pad_token_id = config.pad_token_id};
  }

  static int64_t inner(const Gpt2Config& config) {
    return config.n_inner == 0 ? 4 * config.n_embd : config.n_inner;
  }

  Tensor block(ModelBuilder& builder, int32_t layer, Tensor x) const {
    const std::string prefix = fmt::format("transformer.h.{}.", layer);
    // Projections into the residual stream begin smaller, by the root of their number.
    const float residual_range =
        config_.initializer_range / std::sqrt(2 * static_cast<float>(config_.n_layer));
    builder.set_region(layer, Component::kAttention);
    const Tensor qkv = conv1d_layer(builder, prefix + "attn.c_attn",
                                    layer_norm_layer(builder, prefix + "ln_1", x, config_.layer_norm_epsilon),
                                    3 * config_.n_embd, config_.initializer_range);
    const auto part = [&](int64_t index) {
      return builder.columns(qkv, index * config_.n_embd, config_.n_embd);
    };
    const Tensor context = builder.attention(part(0), part(1), part(2),
                                             {.heads = config_.n_head,
                                              .mask = AttentionMask::causal(),
                                              .dropout = config_.attn_pdrop,
                                              .scale = scale(layer)});
    x = builder.add(builder.token_dropout(conv1d_layer(builder, prefix + "attn.c_proj", context,
                                                       config_.n_embd, residual_range),
                                          config_.resid_pdrop),
                    x);
    builder.set_region(layer, Component::kFeedForward);
    const Tensor normed = layer_norm_layer(builder, prefix + "ln_2", x, config_.layer_norm_epsilon);
    const Tensor activated = builder.activation(
        conv1d_layer(builder, prefix + "mlp.c_fc", normed, inner(config_), config_.initializer_range),
        config_.activation_function);
    return builder.add(builder.token_dropout(conv1d_layer(builder, prefix + "mlp.c_proj", activated,
                                                          config_.n_embd, residual_range),
                                             config_.resid_pdrop),
                       x);
  }

  float scale(int32_t layer) const {
    float scale = 1;
    if (config_.scale_attn_weights) scale /= std::sqrt(static_cast<float>(config_.n_embd / config_.n_head));
    if (config_.scale_attn_by_inverse_layer_idx) scale /= static_cast<float>(layer + 1);
    return scale;
  }

  Gpt2Config config_;
};

std::shared_ptr<const DecoderStack> make_decoder(const Gpt2Config& config) {
  return std::make_shared<Gpt2>(config);
}

constexpr std::string_view kGpt2Keys[] = {"activation_function",
                                          "add_cross_attention",
                                          "attn_pdrop",
                                          "embd_pdrop",
                                          "initializer_range",
                                          "layer_norm_epsilon",
                                          "n_embd",
                                          "n_head",
                                          "n_inner",
                                          "n_layer",
                                          "n_positions",
                                          "resid_pdrop",
                                          "scale_attn_by_inverse_layer_idx",
                                          "scale_attn_weights",
                                          "tie_word_embeddings"};

constexpr ConfigKeyAlias kGpt2Aliases[] = {{"hidden_size", "n_embd"},
                                           {"max_position_embeddings", "n_positions"},
                                           {"num_attention_heads", "n_head"},
                                           {"num_hidden_layers", "n_layer"}};

constexpr NamedShape kGpt2Shapes[] = {{"gpt2", R"({"model_type": "gpt2"})"}};

}  // namespace

constinit const Architecture kGpt2 =
    decoder_architecture<read_gpt2>("gpt2", kGpt2Keys, kGpt2Shapes, kGpt2Aliases);

}  // namespace shoehorn
