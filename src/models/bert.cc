#include "models/bert.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "model/layers.h"
#include "model/task.h"
#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/open_classifier.h"

namespace shoehorn {

using nlohmann::json;

BertConfig BertConfig::from_json(const json& source, const std::string& file) {
  const ConfigReader reader(source, file);
  reader.expect_model_type("bert");
  const json position = source.value("position_embedding_type", json("absolute"));
  if (!position.is_null() && position != "absolute") {
    throw user_error("[{}] expected 'position_embedding_type' to be \"absolute\", got {}", file,
                     position.dump());
  }
  reader.expect_false("is_decoder");
  reader.expect_false("add_cross_attention");
  BertConfig config;
  config.vocab_size = reader.size("vocab_size", config.vocab_size, kMaxRows);
  config.hidden_size = reader.size("hidden_size", config.hidden_size, kMaxColumns);
  config.num_hidden_layers = reader.size("num_hidden_layers", config.num_hidden_layers, kMaxLayers);
  config.num_attention_heads = reader.size("num_attention_heads", config.num_attention_heads, kMaxColumns);
  config.intermediate_size = reader.size("intermediate_size", config.intermediate_size, kMaxColumns);
  config.hidden_act = reader.activation("hidden_act");
  config.hidden_dropout_prob = reader.number("hidden_dropout_prob", config.hidden_dropout_prob, 0, 0.999F);
  config.attention_probs_dropout_prob =
      reader.number("attention_probs_dropout_prob", config.attention_probs_dropout_prob, 0, 0.999F);
  config.classifier_dropout = reader.number("classifier_dropout", -1, 0, 0.999F);
  config.max_position_embeddings =
      reader.size("max_position_embeddings", config.max_position_embeddings, kMaxRows);
  config.type_vocab_size = reader.size("type_vocab_size", config.type_vocab_size, kMaxRows);
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3F);
  config.layer_norm_eps = reader.number("layer_norm_eps", config.layer_norm_eps, 0, 1);
  config.pad_token_id = reader.padding_row(config.pad_token_id, config.vocab_size);
  config.labels = reader.label_map();
  reader.expect_multiple("hidden_size", config.hidden_size, "num_attention_heads",
                         config.num_attention_heads);
  return config;
}

namespace {

constexpr std::string_view kBertKeys[] = {"add_cross_attention",
                                          "attention_probs_dropout_prob",
                                          "classifier_dropout",
                                          "hidden_act",
                                          "hidden_dropout_prob",
                                          "hidden_size",
                                          "initializer_range",
                                          "intermediate_size",
                                          "is_decoder",
                                          "layer_norm_eps",
                                          "max_position_embeddings",
                                          "num_attention_heads",
                                          "num_hidden_layers",
                                          "position_embedding_type",
                                          "type_vocab_size"};

constexpr NamedShape kBertMini = {"bert-mini", R"({
  "model_type": "bert", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
  "intermediate_size": 1024})"};
constexpr NamedShape kBertBase = {"bert-base", R"({"model_type": "bert"})"};
constexpr NamedShape kBertLarge = {"bert-large", R"({
  "model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
  "intermediate_size": 4096})"};
constexpr NamedShape kBertShapes[] = {kBertMini, kBertBase, kBertLarge};

BertConfig config_of(const NamedShape& shape) {
  const std::string name(shape.name);
  return BertConfig::from_json(parse_json(std::string(shape.config), name), name);
}

}  // namespace

constinit const Architecture kBert = {
    .model_type = "bert",
    .make_classifier = make_classifier<BertForSequenceClassification, BertConfig>,
    .config_keys = kBertKeys,
    .shapes = kBertShapes,
};

BertConfig BertConfig::bert_mini() {
  return config_of(kBertMini);
}

BertConfig BertConfig::bert_base() {
  return config_of(kBertBase);
}

BertConfig BertConfig::bert_large() {
  return config_of(kBertLarge);
}

BertForSequenceClassification::BertForSequenceClassification(BertConfig config, std::string config_json)
    : TextClassifier(config.labels, std::move(config_json)), config_(std::move(config)) {}

BertForSequenceClassification BertForSequenceClassification::from_config(const std::filesystem::path& file) {
  return classifier_of_config<BertForSequenceClassification, BertConfig>(file);
}

BertForSequenceClassification BertForSequenceClassification::from_pretrained(
    const std::filesystem::path& directory) {
  return classifier_of_directory<BertForSequenceClassification, BertConfig>(directory);
}

BertConfig BertForSequenceClassification::config() const {
  BertConfig config = config_;
  config.labels = task().label_map();
  return config;
}

std::vector<NamedSize> BertForSequenceClassification::product_sizes() const {
  return encoder_sizes(config_.hidden_size, config_.intermediate_size, config_.num_attention_heads,
                       config_.vocab_size);
}

void BertForSequenceClassification::write_keys(json& config) const {
  config["architectures"] = {"BertForSequenceClassification"};
  config["model_type"] = "bert";
  config["vocab_size"] = config_.vocab_size;
  config["hidden_size"] = config_.hidden_size;
  config["num_hidden_layers"] = config_.num_hidden_layers;
  config["num_attention_heads"] = config_.num_attention_heads;
  config["intermediate_size"] = config_.intermediate_size;
  if (!config.contains("hidden_act")) config["hidden_act"] = std::string(activation_name(config_.hidden_act));
  config["max_position_embeddings"] = config_.max_position_embeddings;
  config["type_vocab_size"] = config_.type_vocab_size;
  if (!config.contains("layer_norm_eps")) config["layer_norm_eps"] = config_.layer_norm_eps;
}

Tensor BertForSequenceClassification::embeddings(ModelBuilder& builder) const {
  builder.set_region(-1, Component::kEmbeddings);
  const auto table = [&](const char* name, int64_t rows, int64_t zero_row = -1) {
    return embedding_table(builder, fmt::format("bert.embeddings.{}", name), rows, config_.hidden_size,
                           config_.initializer_range, zero_row);
  };
  Tensor x = builder.embedding(table("word_embeddings", config_.vocab_size, config_.pad_token_id),
                               builder.input(BatchColumn::kInputIds), config_.pad_token_id);
  x = builder.add_embedding(x, table("token_type_embeddings", config_.type_vocab_size),
                            builder.input(BatchColumn::kTokenTypeIds));
  x = builder.add_embedding(x, table("position_embeddings", config_.max_position_embeddings),
                            builder.input(BatchColumn::kPositionIds));
  x = layer_norm_layer(builder, "bert.embeddings.LayerNorm", x, config_.layer_norm_eps);
  return builder.token_dropout(x, config_.hidden_dropout_prob);
}

Tensor BertForSequenceClassification::encoder_layer(ModelBuilder& builder, int32_t layer, Tensor x) const {
  const std::string prefix = fmt::format("bert.encoder.layer.{}.", layer);
  const auto linear = [&](const char* name, Tensor input, int64_t outputs) {
    return linear_layer(builder, prefix + name, input, outputs, config_.initializer_range);
  };
  builder.set_region(layer, Component::kAttention);
  const Tensor query = linear("attention.self.query", x, config_.hidden_size);
  const Tensor key = linear("attention.self.key", x, config_.hidden_size);
  const Tensor value = linear("attention.self.value", x, config_.hidden_size);
  const Tensor context = builder.attention(
      query, key, value,
      {.heads = config_.num_attention_heads, .dropout = config_.attention_probs_dropout_prob});
  const Tensor projected = builder.token_dropout(
      linear("attention.output.dense", context, config_.hidden_size), config_.hidden_dropout_prob);
  const Tensor attended = layer_norm_layer(builder, prefix + "attention.output.LayerNorm",
                                           builder.add(projected, x), config_.layer_norm_eps);

  builder.set_region(layer, Component::kFeedForward);
  const Tensor inner = builder.activation(linear("intermediate.dense", attended, config_.intermediate_size),
                                          config_.hidden_act);
  const Tensor outer =
      builder.token_dropout(linear("output.dense", inner, config_.hidden_size), config_.hidden_dropout_prob);
  return layer_norm_layer(builder, prefix + "output.LayerNorm", builder.add(outer, attended),
                          config_.layer_norm_eps);
}

Outputs BertForSequenceClassification::forward(ModelBuilder& builder) const {
  Tensor x = embeddings(builder);
  for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) x = encoder_layer(builder, layer, x);
  builder.set_region(-1, Component::kHead);
  const Tensor pooled = builder.activation(linear_layer(builder, "bert.pooler.dense", builder.first_tokens(x),
                                                        config_.hidden_size, config_.initializer_range),
                                           Activation::kTanh);
  const float dropout =
      config_.classifier_dropout >= 0 ? config_.classifier_dropout : config_.hidden_dropout_prob;
  return linear_layer(builder, "classifier", builder.sequence_dropout(pooled, dropout), num_labels(),
                      config_.initializer_range);
}

}  // namespace shoehorn
