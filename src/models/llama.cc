#include "models/llama.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/layers.h"
#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/decoder_architecture.h"

namespace shoehorn {

using nlohmann::json;

void read_llama_keys(const json& source, const std::string& file, float theta, LlamaConfig& config) {
  const ConfigReader reader(source, file);
  reader.expect_model_type(config.model_type.c_str());
  config.vocab_size = reader.size("vocab_size", config.vocab_size, kMaxRows);
  config.hidden_size = reader.size("hidden_size", config.hidden_size, kMaxColumns);
  config.intermediate_size = reader.size("intermediate_size", config.intermediate_size, kMaxColumns);
  config.num_hidden_layers = reader.size("num_hidden_layers", config.num_hidden_layers, kMaxLayers);
  config.num_attention_heads = reader.size("num_attention_heads", config.num_attention_heads, kMaxColumns);
  if (config.num_key_value_heads == 0 || reader.is_null("num_key_value_heads"))
    config.num_key_value_heads = config.num_attention_heads;
  config.num_key_value_heads = reader.size("num_key_value_heads", config.num_key_value_heads, kMaxColumns);
  reader.expect_multiple("num_attention_heads", config.num_attention_heads, "num_key_value_heads",
                         config.num_key_value_heads);
  if ((config.head_dim == 0 && !reader.has("head_dim")) || reader.is_null("head_dim")) {
    reader.expect_multiple("hidden_size", config.hidden_size, "num_attention_heads",
                           config.num_attention_heads);
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  config.head_dim = reader.size("head_dim", config.head_dim, kMaxColumns);
  config.max_position_embeddings =
      reader.size("max_position_embeddings", config.max_position_embeddings, kMaxRows);
  config.hidden_act = reader.activation("hidden_act", config.hidden_act);
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3F);
  config.rms_norm_eps = reader.number("rms_norm_eps", config.rms_norm_eps, 0, 1);
  config.attention_dropout = reader.number("attention_dropout", config.attention_dropout, 0, 0.999F);
  config.pad_token_id = reader.padding_token(config.pad_token_id, config.vocab_size);
  config.padding_row = reader.padding_row(config.pad_token_id, config.vocab_size);
  config.tie_word_embeddings = reader.flag("tie_word_embeddings", config.tie_word_embeddings);
  config.rotary = rotary_from_json(
      source, {.head_size = config.head_dim, .max_positions = config.max_position_embeddings, .theta = theta},
      file);
}

namespace {

class Llama final : public DecoderStack {
 public:
  explicit Llama(const LlamaConfig& config) : DecoderStack(facts_of(config)), config_(config) {}

  Tensor hidden_states(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(
        embedding_table(builder, "model.embed_tokens", config_.vocab_size, config_.hidden_size,
                        config_.initializer_range, config_.padding_row),
        builder.input(BatchColumn::kInputIds), config_.padding_row);
    const Tensor rotary =
        builder.rotary_table(config_.rotary.for_length(builder.capacity().longest_sequence));
    for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const std::string prefix = fmt::format("model.layers.{}.", layer);
      builder.set_region(layer, Component::kAttention);
      x = builder.add(attention(builder, layer, prefix, norm(builder, prefix + "input_layernorm", x), rotary),
                      x);
      builder.set_region(layer, Component::kFeedForward);
      x = builder.add(
          feed_forward(builder, prefix + "mlp.", norm(builder, prefix + "post_attention_layernorm", x)), x);
    }
    return norm(builder, "model.norm", x);
  }

 private:
  static DecoderFacts facts_of(const LlamaConfig& config) {
    return {.model_type = config.model_type,
            .causal_class = config.class_prefix + "ForCausalLM",
            .classifier_class = config.class_prefix + "ForSequenceClassification",
            .base_model_prefix = "model",
            .embedding = "model.embed_tokens.weight",
            .vocab_size = config.vocab_size,
            .hidden_size = config.hidden_size,
            .max_positions = config.rotary.max_positions,
            .max_position_embeddings = config.max_position_embeddings,
            .initializer_range = config.initializer_range,
            .ties_word_embeddings = config.tie_word_embeddings,
            .product_sizes = {{"hidden", config.hidden_size},
                              {"feed-forward", config.intermediate_size},
                              {"head", config.head_dim},
                              {"vocabulary", config.vocab_size}},
            .lora_targets = {"q_proj", "v_proj"},
            .pad_token_id = config.pad_token_id};
  }

  Tensor norm(ModelBuilder& builder, const std::string& name, Tensor x) const {
    return rms_norm_layer(builder, name, x, config_.rms_norm_eps);
  }

  Tensor linear(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs, bool bias) const {
    return bias ? linear_layer(builder, name, x, outputs, config_.initializer_range)
                : linear_layer_without_bias(builder, name, x, outputs, config_.initializer_range);
  }

  Tensor attention(ModelBuilder& builder, int32_t layer, const std::string& prefix, Tensor x,
                   Tensor rotary) const {
    const std::string name = prefix + "self_attn.";
    const auto project = [&](const char* which, int64_t heads) {
      return linear(builder, name + which, x, heads * config_.head_dim, config_.query_key_value_bias);
    };
    const auto turn = [&](Tensor heads, const char* normed, int64_t count) {
      if (config_.query_key_norm)
        heads = head_rms_norm_layer(builder, name + normed, heads, count, config_.rms_norm_eps);
      return builder.rotate(heads, rotary, count);
    };
    const Tensor query =
        turn(project("q_proj", config_.num_attention_heads), "q_norm", config_.num_attention_heads);
    const Tensor key =
        turn(project("k_proj", config_.num_key_value_heads), "k_norm", config_.num_key_value_heads);
    const Tensor context = builder.attention(
        query, key, project("v_proj", config_.num_key_value_heads),
        {.heads = config_.num_attention_heads,
         .key_value_heads = config_.num_key_value_heads,
         .mask = config_.masks.empty() ? AttentionMask::causal() : config_.masks[static_cast<size_t>(layer)],
         .dropout = config_.attention_dropout});
    return linear(builder, name + "o_proj", context, config_.hidden_size, config_.output_bias);
  }

  Tensor feed_forward(ModelBuilder& builder, const std::string& prefix, Tensor x) const {
    const auto project = [&](const char* which) {
      return linear(builder, prefix + which, x, config_.intermediate_size, config_.mlp_bias);
    };
    const Tensor gate = builder.activation(project("gate_proj"), config_.hidden_act);
    return linear(builder, prefix + "down_proj", builder.multiply(gate, project("up_proj")),
                  config_.hidden_size, config_.mlp_bias);
  }

  LlamaConfig config_;
};

}  // namespace

std::shared_ptr<const DecoderStack> make_decoder(const LlamaConfig& config) {
  return std::make_shared<Llama>(config);
}

namespace {

LlamaConfig read_llama(const json& source, const std::string& file) {
  LlamaConfig config;
  config.num_key_value_heads = 0;
  config.head_dim = 0;
  read_llama_keys(source, file, 10000, config);
  const ConfigReader reader(source, file);
  config.query_key_value_bias = config.output_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  return config;
}

constexpr auto kLlamaOwnKeys = llama_keys_and({"attention_bias", "mlp_bias"});

constexpr NamedShape kLlamaShapes[] = {
    // SmolLM2-135M.
    {"llama-135m", R"({
  "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
  "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05, "rope_theta": 100000, "tie_word_embeddings": true})"},
    // Llama 3.2 1B.
    {"llama-1b", R"({
  "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
  "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}})"},
    // Llama 3 70B.
    {"llama-70b", R"({
  "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": false})"},
};

}  // namespace

constinit const Architecture kLlama = decoder_architecture<read_llama>("llama", kLlamaOwnKeys, kLlamaShapes);

}  // namespace shoehorn
