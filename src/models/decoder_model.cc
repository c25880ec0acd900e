#include "models/decoder_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "io/json_file.h"
#include "io/model_directory.h"
#include "model/layers.h"
#include "models/config_keys.h"
#include "tasks/causal_language_modeling.h"

namespace shoehorn {

using nlohmann::json;

CausalLanguageModel::CausalLanguageModel(std::shared_ptr<const DecoderStack> decoder, std::string config_json)
    : decoder_(std::move(decoder)),
      config_json_(std::move(config_json)),
      task_(std::make_shared<CausalLanguageModeling>()) {}

Outputs CausalLanguageModel::forward(ModelBuilder& builder) const {
  const DecoderFacts& facts = decoder_->facts();
  const Tensor hidden = decoder_->hidden_states(builder);
  builder.set_region(-1, Component::kHead);
  const Initializer initializer{Initializer::Kind::kNormal, facts.initializer_range, -1};
  const Tensor head = builder.parameter(facts.ties_word_embeddings ? facts.embedding : kHead,
                                        {facts.vocab_size, facts.hidden_size}, initializer);
  return builder.linear(hidden, head);
}

std::map<std::string, std::string> CausalLanguageModel::other_names() const {
  if (!ties_word_embeddings()) return {};
  return {{embedding(), kHead}};
}

std::string CausalLanguageModel::config_json() const {
  json config = config_json_.empty() ? json::object() : parse_json(config_json_, kConfigFileName);
  config["architectures"] = {decoder_->facts().causal_class};
  config["model_type"] = decoder_->facts().model_type;
  return config.dump(2) + "\n";
}

DecoderForSequenceClassification::DecoderForSequenceClassification(
    std::shared_ptr<const DecoderStack> decoder, LabelMap labels, std::string config_json)
    : TextClassifier(std::move(labels), std::move(config_json)), decoder_(std::move(decoder)) {}

Outputs DecoderForSequenceClassification::forward(ModelBuilder& builder) const {
  const Tensor last = builder.last_tokens(decoder_->hidden_states(builder), decoder_->facts().pad_token_id);
  builder.set_region(-1, Component::kHead);
  return linear_layer_without_bias(builder, "score", last, num_labels(), decoder_->facts().initializer_range);
}

void DecoderForSequenceClassification::write_keys(json& config) const {
  config["architectures"] = {decoder_->facts().classifier_class};
  config["model_type"] = decoder_->facts().model_type;
}

std::unique_ptr<Model> classifier_of_decoder(std::shared_ptr<const DecoderStack> decoder, const json& config,
                                             const std::string& file) {
  return std::make_unique<DecoderForSequenceClassification>(
      std::move(decoder), ConfigReader(config, file).label_map(), format_json(config));
}

std::unique_ptr<Model> language_model_of_decoder(std::shared_ptr<const DecoderStack> decoder,
                                                 const json& config) {
  return std::make_unique<CausalLanguageModel>(std::move(decoder), format_json(config));
}

}  // namespace shoehorn
