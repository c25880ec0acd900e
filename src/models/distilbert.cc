// DistilBERT (Sanh et al., 2019) with a sequence-classification head, as transformers'
// DistilBertForSequenceClassification: BERT without token types and pooler.
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/layers.h"
#include "model/model_builder.h"
#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/open_classifier.h"
#include "models/text_classifier.h"

namespace shoehorn {

namespace {

using nlohmann::json;

constexpr float kDistilBertNormEpsilon = 1e-12F;

// The keys of config.json that the computation depends on, with transformers' defaults.
struct DistilBertConfig {
  int64_t vocab_size = 30522;
  int64_t max_position_embeddings = 512;
  int64_t n_layers = 6;
  int64_t n_heads = 12;
  int64_t dim = 768;
  int64_t hidden_dim = 3072;  // feed-forward size
  float dropout = 0.1F;
  float attention_dropout = 0.1F;
  Activation activation = Activation::kGelu;
  float initializer_range = 0.02F;
  float seq_classif_dropout = 0.2F;
  int64_t pad_token_id = 0;
  LabelMap labels = classes(2);

  static DistilBertConfig from_json(const json& source, const std::string& file);
};

DistilBertConfig DistilBertConfig::from_json(const json& source, const std::string& file) {
  const ConfigReader reader(source, file);
  reader.expect_model_type("distilbert");
  // Positions that are computed and not trained.
  reader.expect_false("sinusoidal_pos_embds");
  DistilBertConfig config;
  config.vocab_size = reader.size("vocab_size", config.vocab_size, kMaxRows);
  config.max_position_embeddings =
      reader.size("max_position_embeddings", config.max_position_embeddings, kMaxRows);
  config.n_layers = reader.size("n_layers", config.n_layers, kMaxLayers);
  config.n_heads = reader.size("n_heads", config.n_heads, kMaxColumns);
  config.dim = reader.size("dim", config.dim, kMaxColumns);
  config.hidden_dim = reader.size("hidden_dim", config.hidden_dim, kMaxColumns);
  config.dropout = reader.number("dropout", config.dropout, 0, 0.999F);
  config.attention_dropout = reader.number("attention_dropout", config.attention_dropout, 0, 0.999F);
  config.activation = reader.activation("activation");
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3F);
  config.seq_classif_dropout = reader.number("seq_classif_dropout", config.seq_classif_dropout, 0, 0.999F);
  config.pad_token_id = reader.padding_row(config.pad_token_id, config.vocab_size);
  config.labels = reader.label_map();
  reader.expect_multiple("dim", config.dim, "n_heads", config.n_heads);
  return config;
}

class DistilBertForSequenceClassification final : public TextClassifier {
 public:
  // `config_json`: the text of the config.json that `config` was read from.
  DistilBertForSequenceClassification(DistilBertConfig config, std::string config_json)
      : TextClassifier(config.labels, std::move(config_json)), config_(std::move(config)) {}

  Outputs forward(ModelBuilder& builder) const override;
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t hidden_size() const override { return config_.dim; }
  std::vector<NamedSize> product_sizes() const override;
  std::string base_model_prefix() const override { return "distilbert"; }
  std::vector<std::string> lora_targets() const override { return {"q_lin", "v_lin"}; }
  std::vector<std::string> lora_modules_to_save() const override { return {"pre_classifier", "classifier"}; }

 private:
  void write_keys(json& config) const override;
  Tensor embeddings(ModelBuilder& builder) const;
  Tensor transformer_layer(ModelBuilder& builder, int32_t layer, Tensor x) const;

  DistilBertConfig config_;
};

std::vector<NamedSize> DistilBertForSequenceClassification::product_sizes() const {
  return encoder_sizes(config_.dim, config_.hidden_dim, config_.n_heads, config_.vocab_size);
}

void DistilBertForSequenceClassification::write_keys(json& config) const {
  config["architectures"] = {"DistilBertForSequenceClassification"};
  config["model_type"] = "distilbert";
  config["vocab_size"] = config_.vocab_size;
  config["max_position_embeddings"] = config_.max_position_embeddings;
  config["n_layers"] = config_.n_layers;
  config["n_heads"] = config_.n_heads;
  config["dim"] = config_.dim;
  config["hidden_dim"] = config_.hidden_dim;
  if (!config.contains("activation")) config["activation"] = std::string(activation_name(config_.activation));
}

Tensor DistilBertForSequenceClassification::embeddings(ModelBuilder& builder) const {
  builder.set_region(-1, Component::kEmbeddings);
  const auto table = [&](const char* name, int64_t rows, int64_t zero_row = -1) {
    return embedding_table(builder, fmt::format("distilbert.embeddings.{}", name), rows, config_.dim,
                           config_.initializer_range, zero_row);
  };
  Tensor x = builder.embedding(table("word_embeddings", config_.vocab_size, config_.pad_token_id),
                               builder.input(BatchColumn::kInputIds), config_.pad_token_id);
  x = builder.add_embedding(x, table("position_embeddings", config_.max_position_embeddings),
                            builder.input(BatchColumn::kPositionIds));
  x = layer_norm_layer(builder, "distilbert.embeddings.LayerNorm", x, kDistilBertNormEpsilon);
  return builder.token_dropout(x, config_.dropout);
}

Tensor DistilBertForSequenceClassification::transformer_layer(ModelBuilder& builder, int32_t layer,
                                                              Tensor x) const {
  const std::string prefix = fmt::format("distilbert.transformer.layer.{}.", layer);
  const auto linear = [&](const char* name, Tensor input, int64_t outputs) {
    return linear_layer(builder, prefix + name, input, outputs, config_.initializer_range);
  };
  builder.set_region(layer, Component::kAttention);
  const Tensor query = linear("attention.q_lin", x, config_.dim);
  const Tensor key = linear("attention.k_lin", x, config_.dim);
  const Tensor value = linear("attention.v_lin", x, config_.dim);
  const Tensor context =
      builder.attention(query, key, value, {.heads = config_.n_heads, .dropout = config_.attention_dropout});
  const Tensor attended = layer_norm_layer(builder, prefix + "sa_layer_norm",
                                           builder.add(linear("attention.out_lin", context, config_.dim), x),
                                           kDistilBertNormEpsilon);

  builder.set_region(layer, Component::kFeedForward);
  const Tensor inner =
      builder.activation(linear("ffn.lin1", attended, config_.hidden_dim), config_.activation);
  const Tensor outer = builder.token_dropout(linear("ffn.lin2", inner, config_.dim), config_.dropout);
  return layer_norm_layer(builder, prefix + "output_layer_norm", builder.add(outer, attended),
                          kDistilBertNormEpsilon);
}

Outputs DistilBertForSequenceClassification::forward(ModelBuilder& builder) const {
  Tensor x = embeddings(builder);
  for (int32_t layer = 0; layer < config_.n_layers; ++layer) x = transformer_layer(builder, layer, x);
  builder.set_region(-1, Component::kHead);
  const Tensor pooled = builder.activation(linear_layer(builder, "pre_classifier", builder.first_tokens(x),
                                                        config_.dim, config_.initializer_range),
                                           Activation::kRelu);
  return linear_layer(builder, "classifier", builder.sequence_dropout(pooled, config_.seq_classif_dropout),
                      num_labels(), config_.initializer_range);
}

constexpr std::string_view kDistilBertKeys[] = {
    "activation",          "attention_dropout",       "dim",     "dropout",  "hidden_dim",
    "initializer_range",   "max_position_embeddings", "n_heads", "n_layers", "seq_classif_dropout",
    "sinusoidal_pos_embds"};

constexpr ConfigKeyAlias kDistilBertAliases[] = {
    {"hidden_size", "dim"}, {"num_attention_heads", "n_heads"}, {"num_hidden_layers", "n_layers"}};

constexpr NamedShape kDistilBertShapes[] = {{"distilbert-base", R"({"model_type": "distilbert"})"}};

}  // namespace

constinit const Architecture kDistilBert = {
    .model_type = "distilbert",
    .make_classifier = make_classifier<DistilBertForSequenceClassification, DistilBertConfig>,
    .config_keys = kDistilBertKeys,
    .shapes = kDistilBertShapes,
    .config_key_aliases = kDistilBertAliases,
};

}  // namespace shoehorn
