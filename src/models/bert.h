// BERT (Devlin et al., 2018) with a sequence-classification head, as transformers'
// BertForSequenceClassification.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_builder.h"
#include "models/text_classifier.h"

namespace shoehorn {

// The keys of config.json that the computation depends on, with transformers' defaults.
struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  float hidden_dropout_prob = 0.1F;
  float attention_probs_dropout_prob = 0.1F;
  float classifier_dropout = -1;  // negative: hidden_dropout_prob
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  float initializer_range = 0.02F;
  float layer_norm_eps = 1e-12F;
  int64_t pad_token_id = 0;
  LabelMap labels = classes(2);

  // UserError naming `file`, the key, what was expected and what was found; also for another architecture.
  static BertConfig from_json(const nlohmann::json& json, const std::string& file);
  static BertConfig bert_mini();  // 4 layers of 256 (Turc et al., 2019)
  static BertConfig bert_base();
  static BertConfig bert_large();
};

class BertForSequenceClassification final : public TextClassifier {
 public:
  // `config_json` is the text of the user's config.json. All its keys are kept; those that `config` has are
  // updated. Throws UserError as make_task does.
  explicit BertForSequenceClassification(BertConfig config, std::string config_json = {});
  // A model with new weights from a config.json. Errors: UserError and SystemError of read_json, UserError of
  // BertConfig::from_json.
  static BertForSequenceClassification from_config(const std::filesystem::path& file);
  // A model from a directory (io/model_directory.h). A Trainer or Accelerator starts from the weights there
  // and reads them when it reserves its memory; a classifier that is missing there is initialized. Errors:
  // those above and of open_model_directory.
  static BertForSequenceClassification from_pretrained(const std::filesystem::path& directory);

  Outputs forward(ModelBuilder& builder) const override;
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t hidden_size() const override { return config_.hidden_size; }
  std::vector<NamedSize> product_sizes() const override;
  std::string base_model_prefix() const override { return "bert"; }
  // The configuration, with the labels of the last set_labels().
  BertConfig config() const;

 private:
  void write_keys(nlohmann::json& config) const override;
  Tensor embeddings(ModelBuilder& builder) const;
  Tensor encoder_layer(ModelBuilder& builder, int32_t layer, Tensor x) const;

  BertConfig config_;
};

}  // namespace shoehorn
