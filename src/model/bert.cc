#include "model/bert.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/layers.h"

namespace shoehorn {

BertForSequenceClassification::BertForSequenceClassification(BertConfig config, std::string config_json)
    : config_(config), config_json_(std::move(config_json)) {
  BertConfig::check_num_labels(config_.num_labels, "num_labels");
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
  const Tensor context =
      builder.attention(query, key, value, config_.num_attention_heads, config_.attention_probs_dropout_prob);
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

Tensor BertForSequenceClassification::forward(ModelBuilder& builder) const {
  Tensor x = embeddings(builder);
  for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) x = encoder_layer(builder, layer, x);
  builder.set_region(-1, Component::kHead);
  const Tensor pooled = builder.activation(linear_layer(builder, "bert.pooler.dense", builder.first_tokens(x),
                                                        config_.hidden_size, config_.initializer_range),
                                           Activation::kTanh);
  const float dropout =
      config_.classifier_dropout >= 0 ? config_.classifier_dropout : config_.hidden_dropout_prob;
  return linear_layer(builder, "classifier", builder.sequence_dropout(pooled, dropout), config_.num_labels,
                      config_.initializer_range);
}

}  // namespace shoehorn
