// DistilBERT (Sanh et al., 2019) with a sequence-classification head, as transformers'
// DistilBertForSequenceClassification: BERT without token types and pooler.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_builder.h"
#include "models/text_classifier.h"

namespace shoehorn {

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

  // UserError naming `file`, the key, what was expected and what was found; also for another architecture.
  static DistilBertConfig from_json(const nlohmann::json& json, const std::string& file);
};

class DistilBertForSequenceClassification final : public TextClassifier {
 public:
  // As in BertForSequenceClassification (models/bert.h).
  explicit DistilBertForSequenceClassification(DistilBertConfig config, std::string config_json = {});
  static DistilBertForSequenceClassification from_config(const std::filesystem::path& file);
  static DistilBertForSequenceClassification from_pretrained(const std::filesystem::path& directory);

  Outputs forward(ModelBuilder& builder) const override;
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t hidden_size() const override { return config_.dim; }
  std::vector<NamedSize> product_sizes() const override;
  std::string base_model_prefix() const override { return "distilbert"; }
  std::vector<std::string> lora_targets() const override { return {"q_lin", "v_lin"}; }
  std::vector<std::string> lora_modules_to_save() const override { return {"pre_classifier", "classifier"}; }

 private:
  void write_keys(nlohmann::json& config) const override;
  Tensor embeddings(ModelBuilder& builder) const;
  Tensor transformer_layer(ModelBuilder& builder, int32_t layer, Tensor x) const;

  DistilBertConfig config_;
};

}  // namespace shoehorn
