// config.json of BERT: read with transformers' defaults, kept whole, written back with the labels.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "model/bert.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// Far above any model's sizes, and low enough for bytes to be counted in 63 bits.
constexpr int64_t kMostRows = int64_t{1} << 26;  // of a table
constexpr int64_t kMostColumns = int64_t{1} << 20;
constexpr int64_t kMostLayers = 256;  // planning takes seconds then
constexpr int64_t kMostLabels = int64_t{1} << 20;

int64_t read_size(const json& config, const std::string& file, const char* key, int64_t fallback,
                  int64_t most) {
  if (!config.contains(key) || config[key].is_null()) return fallback;
  const json& value = config[key];
  if (!value.is_number_integer() || value.get<double>() < 1 ||
      value.get<double>() > static_cast<double>(most)) {
    throw user_error("[{}] expected '{}' to be a whole number from 1 to {}, got {}", file, key, most,
                     value.dump());
  }
  return value.get<int64_t>();
}

// The token whose embedding is not trained; -1 for none.
int64_t read_padding_token(const json& config, const std::string& file, int64_t fallback,
                           int64_t vocab_size) {
  if (!config.contains("pad_token_id")) return fallback;
  const json& value = config["pad_token_id"];
  if (value.is_null()) return -1;
  if (!value.is_number_integer() || value.get<double>() < 0 ||
      value.get<double>() >= static_cast<double>(vocab_size)) {
    throw user_error("[{}] expected 'pad_token_id' to be null or a token from 0 to {}, got {}", file,
                     vocab_size - 1, value.dump());
  }
  return value.get<int64_t>();
}

float read_number(const json& config, const std::string& file, const char* key, float fallback, float low,
                  float high) {
  if (!config.contains(key) || config[key].is_null()) return fallback;
  const json& value = config[key];
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    throw user_error("[{}] expected '{}' to be a number from {} to {}, got {}", file, key, low, high,
                     value.dump());
  }
  return value.get<float>();
}

Activation read_activation(const json& config, const std::string& file) {
  const json value = config.value("hidden_act", json("gelu"));
  if (value == "gelu") return Activation::kGelu;
  if (value == "gelu_new" || value == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (value == "relu") return Activation::kRelu;
  if (value == "silu" || value == "swish") return Activation::kSilu;
  if (value == "tanh") return Activation::kTanh;
  throw user_error(
      "[{}] expected 'hidden_act' to be one of gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, tanh, "
      "got {}",
      file, value.dump());
}

void expect_bert(const json& config, const std::string& file) {
  if (!config.is_object()) throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
  const json type = config.value("model_type", json("bert"));
  if (type != "bert") {
    throw user_error(
        "[{}] expected 'model_type' to be \"bert\", got {}; other architectures are not supported yet", file,
        type.dump());
  }
  const json position = config.value("position_embedding_type", json("absolute"));
  if (!position.is_null() && position != "absolute") {
    throw user_error("[{}] expected 'position_embedding_type' to be \"absolute\", got {}", file,
                     position.dump());
  }
  const json problem = config.value("problem_type", json());
  if (!problem.is_null() && problem != "single_label_classification") {
    throw user_error(
        "[{}] expected 'problem_type' to be \"single_label_classification\" or null, got {}; regression and "
        "several labels a text are not supported yet",
        file, problem.dump());
  }
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.value(key, json(false)) == true)
      throw user_error("[{}] expected '{}' to be false, got true", file, key);
  }
}

// run_glue writes the labels of its training file as they are: text, whole numbers, booleans.
std::string read_label(const json& label, const std::string& file) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_number_integer() || label.is_boolean()) return label.dump();
  throw user_error("[{}] expected the names in 'id2label' to be texts, got {}", file, label.dump());
}

// Where both name a label, they have to mean the same class. What label2id alone has is left over from
// another model, and not used.
void check_label2id(const json& config, const std::vector<std::string>& labels, const std::string& file) {
  const auto label2id = config.find("label2id");
  if (label2id == config.end() || !label2id->is_object()) return;
  std::unordered_multimap<std::string_view, size_t> classes;
  for (size_t i = 0; i < labels.size(); ++i) classes.emplace(labels[i], i);
  for (const auto& [label, id] : label2id->items()) {
    const auto [begin, end] = classes.equal_range(label);
    const auto is_id = [&id = id](const auto& one) {
      return id == one.second || id == std::to_string(one.second);
    };
    if (begin == end || std::any_of(begin, end, is_id)) continue;
    throw user_error("[{}] expected 'label2id' to be the inverse of 'id2label', got {} for \"{}\"", file,
                     id.dump(), label);
  }
}

// In the order of the classes; nothing where the config has no names.
std::optional<std::vector<std::string>> read_labels(const json& config, const std::string& file) {
  const auto names = config.find("id2label");
  if (names == config.end() || names->is_null()) return std::nullopt;
  if (!names->is_object() || names->empty()) {
    throw user_error("[{}] expected 'id2label' to map \"0\", \"1\", … to names, got {}", file, names->dump());
  }
  std::vector<std::string> labels;
  for (size_t i = 0; i < names->size(); ++i) {
    const auto found = names->find(std::to_string(i));
    if (found == names->end())
      throw user_error("[{}] expected 'id2label' to have a name for \"{}\", got {}", file, i, names->dump());
    labels.push_back(read_label(*found, file));
  }
  return labels;
}

int64_t count_labels(const json& config, const std::string& file) {
  const std::optional<std::vector<std::string>> labels = read_labels(config, file);
  const auto named = labels ? static_cast<int64_t>(labels->size()) : 2;
  const int64_t count = read_size(config, file, "num_labels", named, kMostLabels);
  if (labels && count != named) {
    throw user_error(
        "[{}] expected 'num_labels' to be the number of names in 'id2label', got {} and {}; remove one", file,
        count, named);
  }
  BertConfig::check_num_labels(count, file);
  if (labels) check_label2id(config, *labels, file);
  return count;
}

}  // namespace

BertConfig BertConfig::from_json(const json& source, const std::string& file) {
  expect_bert(source, file);
  BertConfig config;
  config.vocab_size = read_size(source, file, "vocab_size", config.vocab_size, kMostRows);
  config.hidden_size = read_size(source, file, "hidden_size", config.hidden_size, kMostColumns);
  config.num_hidden_layers =
      read_size(source, file, "num_hidden_layers", config.num_hidden_layers, kMostLayers);
  config.num_attention_heads =
      read_size(source, file, "num_attention_heads", config.num_attention_heads, kMostColumns);
  config.intermediate_size =
      read_size(source, file, "intermediate_size", config.intermediate_size, kMostColumns);
  config.hidden_act = read_activation(source, file);
  config.hidden_dropout_prob =
      read_number(source, file, "hidden_dropout_prob", config.hidden_dropout_prob, 0, 0.999F);
  config.attention_probs_dropout_prob = read_number(source, file, "attention_probs_dropout_prob",
                                                    config.attention_probs_dropout_prob, 0, 0.999F);
  config.classifier_dropout = read_number(source, file, "classifier_dropout", -1, 0, 0.999F);
  config.max_position_embeddings =
      read_size(source, file, "max_position_embeddings", config.max_position_embeddings, kMostRows);
  config.type_vocab_size = read_size(source, file, "type_vocab_size", config.type_vocab_size, kMostRows);
  config.initializer_range =
      read_number(source, file, "initializer_range", config.initializer_range, 0, 1e3F);
  config.layer_norm_eps = read_number(source, file, "layer_norm_eps", config.layer_norm_eps, 0, 1);
  config.pad_token_id = read_padding_token(source, file, config.pad_token_id, config.vocab_size);
  config.num_labels = count_labels(source, file);
  if (config.hidden_size % config.num_attention_heads != 0) {
    throw user_error("[{}] expected 'hidden_size' to be a multiple of 'num_attention_heads', got {} and {}",
                     file, config.hidden_size, config.num_attention_heads);
  }
  return config;
}

void BertConfig::check_num_labels(int64_t num_labels, const std::string& source) {
  if (num_labels >= 2 && num_labels <= kMostLabels) return;
  throw user_error(
      "[{}] expected 'num_labels' (the names in 'id2label') to be a number from 2 to {}, got {}{}", source,
      kMostLabels, num_labels,
      num_labels == 1 ? "; a model with one output is a regression, which is not supported yet" : "");
}

BertConfig BertConfig::bert_base() {
  return {};
}

BertConfig BertConfig::bert_large() {
  BertConfig config;
  config.hidden_size = 1024;
  config.num_hidden_layers = 24;
  config.num_attention_heads = 16;
  config.intermediate_size = 4096;
  return config;
}

BertForSequenceClassification BertForSequenceClassification::from_config(const std::filesystem::path& file) {
  const json config = read_json(file);
  return BertForSequenceClassification(BertConfig::from_json(config, file.string()), format_json(config));
}

BertForSequenceClassification BertForSequenceClassification::from_pretrained(
    const std::filesystem::path& directory) {
  const ModelDirectory opened = open_model_directory(directory);
  BertForSequenceClassification model = from_config(opened.config);
  model.set_weights_directory(opened.path);
  return model;
}

void BertForSequenceClassification::set_labels(const std::vector<std::string>& labels) {
  BertConfig::check_num_labels(static_cast<int64_t>(labels.size()), "labels");
  json config = parsed_config();
  config["id2label"] = json::object();
  config["label2id"] = json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
  config.erase("num_labels");
  config_json_ = format_json(config);
  config_.num_labels = static_cast<int64_t>(labels.size());
}

std::vector<std::string> BertForSequenceClassification::labels() const {
  const auto named = read_labels(parsed_config(), std::string(kConfigFileName));
  if (named && static_cast<int64_t>(named->size()) == config_.num_labels) return *named;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < config_.num_labels; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

json BertForSequenceClassification::parsed_config() const {
  return config_json_.empty() ? json::object() : parse_json(config_json_, kConfigFileName);
}

std::string BertForSequenceClassification::config_json() const {
  json config = parsed_config();
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
  config["problem_type"] = "single_label_classification";
  return config.dump(2) + "\n";
}

}  // namespace shoehorn
