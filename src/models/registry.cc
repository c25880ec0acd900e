#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "models/bert.h"
#include "models/distilbert.h"
#include "models/open_classifier.h"

namespace shoehorn {

namespace {

using nlohmann::json;

struct Architecture {
  std::string_view model_type;
  std::unique_ptr<Model> (*make)(const json& config, const std::string& file);
};

template <typename ModelClass, typename Config>
std::unique_ptr<Model> make(const json& config, const std::string& file) {
  return std::make_unique<ModelClass>(classifier_of_json<ModelClass, Config>(config, file));
}

// The first is that of a config without a model_type.
constexpr Architecture kArchitectures[] = {
    {"bert", make<BertForSequenceClassification, BertConfig>},
    {"distilbert", make<DistilBertForSequenceClassification, DistilBertConfig>},
};

struct NamedShape {
  std::string_view name;
  std::unique_ptr<Model> (*make)();
};

constexpr NamedShape kShapes[] = {
    {"bert-mini",
     []() -> std::unique_ptr<Model> {
       return std::make_unique<BertForSequenceClassification>(BertConfig::bert_mini());
     }},
    {"bert-base",
     []() -> std::unique_ptr<Model> {
       return std::make_unique<BertForSequenceClassification>(BertConfig::bert_base());
     }},
    {"bert-large",
     []() -> std::unique_ptr<Model> {
       return std::make_unique<BertForSequenceClassification>(BertConfig::bert_large());
     }},
    {"distilbert-base",
     []() -> std::unique_ptr<Model> {
       return std::make_unique<DistilBertForSequenceClassification>(DistilBertConfig{});
     }},
};

}  // namespace

std::unique_ptr<Model> model_from_json(const json& config, const std::string& file) {
  if (!config.is_object()) throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
  const json type = config.value("model_type", json(kArchitectures[0].model_type));
  std::vector<std::string_view> known;
  for (const Architecture& architecture : kArchitectures) {
    if (type == architecture.model_type) return architecture.make(config, file);
    known.push_back(architecture.model_type);
  }
  throw user_error(
      "[{}] expected 'model_type' to be one of {}, got {}; other architectures are not supported yet", file,
      fmt::join(known, ", "), type.dump());
}

std::unique_ptr<Model> AutoModelForSequenceClassification::from_config(const std::filesystem::path& file) {
  return model_from_json(read_json(file), file.string());
}

std::unique_ptr<Model> AutoModelForSequenceClassification::from_pretrained(
    const std::filesystem::path& directory) {
  const ModelDirectory opened = open_model_directory(directory);
  std::unique_ptr<Model> model = from_config(opened.config);
  model->set_weights_directory(opened.path);
  return model;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const NamedShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

std::unique_ptr<Model> model_of_shape(std::string_view name) {
  for (const NamedShape& shape : kShapes) {
    if (shape.name == name) return shape.make();
  }
  return nullptr;
}

std::unique_ptr<Model> model_of_a_second(int64_t vocab_size, int64_t positions, LabelMap labels) {
  BertConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 128;
  config.max_position_embeddings = positions;
  config.labels = std::move(labels);
  return std::make_unique<BertForSequenceClassification>(std::move(config));
}

}  // namespace shoehorn
