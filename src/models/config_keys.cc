#include "models/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "tasks/make_task.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// run_glue writes the labels of its training file as they are: text, whole numbers, booleans.
std::string read_label(const json& label, const std::string& file) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_number_integer() || label.is_boolean()) return label.dump();
  throw user_error("[{}] expected the names in 'id2label' to be texts, got {}", file, label.dump());
}

// id2label in the order of the labels; nothing where the config has no names.
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

// If both name a label, they must mean the same class. Labels that only label2id has are left over from
// another model and ignored.
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

}  // namespace

ConfigReader::ConfigReader(const json& config, const std::string& file) : config_(config), file_(file) {
  if (!config.is_object()) throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
}

bool ConfigReader::has(const char* key) const {
  return config_.contains(key);
}

bool ConfigReader::is_null(const char* key) const {
  return has(key) && config_[key].is_null();
}

int64_t ConfigReader::size(const char* key, int64_t fallback, int64_t most) const {
  return whole_number(key, fallback, 1, most);
}

int64_t ConfigReader::count(const char* key, int64_t fallback, int64_t most) const {
  return whole_number(key, fallback, 0, most);
}

int64_t ConfigReader::whole_number(const char* key, int64_t fallback, int64_t least, int64_t most) const {
  if (!config_.contains(key) || config_[key].is_null()) return fallback;
  const json& value = config_[key];
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
      value.get<double>() > static_cast<double>(most)) {
    throw user_error("[{}] expected '{}' to be a whole number from {} to {}, got {}", file_, key, least, most,
                     value.dump());
  }
  return value.get<int64_t>();
}

bool ConfigReader::flag(const char* key, bool fallback) const {
  if (!config_.contains(key) || config_[key].is_null()) return fallback;
  if (!config_[key].is_boolean())
    throw user_error("[{}] expected '{}' to be true or false, got {}", file_, key, config_[key].dump());
  return config_[key].get<bool>();
}

float ConfigReader::number(const char* key, float fallback, float low, float high) const {
  if (!config_.contains(key) || config_[key].is_null()) return fallback;
  const json& value = config_[key];
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    throw user_error("[{}] expected '{}' to be a number from {} to {}, got {}", file_, key, low, high,
                     value.dump());
  }
  return value.get<float>();
}

Activation ConfigReader::activation(const char* key, Activation fallback) const {
  if (!config_.contains(key)) return fallback;
  const json& value = config_[key];
  if (value == "gelu") return Activation::kGelu;
  if (value == "gelu_new" || value == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (value == "relu") return Activation::kRelu;
  if (value == "silu" || value == "swish") return Activation::kSilu;
  if (value == "tanh") return Activation::kTanh;
  throw user_error(
      "[{}] expected '{}' to be one of gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, tanh, got {}",
      file_, key, value.dump());
}

int64_t ConfigReader::padding_token(int64_t fallback, int64_t vocab_size) const {
  if (!config_.contains("pad_token_id")) return fallback;
  const json& value = config_["pad_token_id"];
  if (value.is_null()) return -1;
  if (!value.is_number_integer() || value.get<double>() < -1 ||
      value.get<double>() >= static_cast<double>(vocab_size)) {
    throw user_error("[{}] expected 'pad_token_id' to be null, -1 or a token from 0 to {}, got {}", file_,
                     vocab_size - 1, value.dump());
  }
  return value.get<int64_t>();
}

int64_t ConfigReader::padding_row(int64_t fallback, int64_t vocab_size) const {
  const int64_t token = padding_token(fallback, vocab_size);
  const bool says_so = has("pad_token_id") && !is_null("pad_token_id");
  return token < 0 && says_so ? vocab_size - 1 : token;
}

LabelMap ConfigReader::label_map() const {
  const std::optional<std::vector<std::string>> labels = read_labels(config_, file_);
  const auto named = labels ? static_cast<int64_t>(labels->size()) : 2;
  const int64_t count = size("num_labels", named, kMaxLabels);
  if (labels && count != named) {
    throw user_error(
        "[{}] expected 'num_labels' to be the number of names in 'id2label', got {} and {}; remove one",
        file_, count, named);
  }
  if (labels) check_label2id(config_, *labels, file_);
  LabelMap map{.problem = problem_type(count), .names = labels ? *labels : default_labels(count)};
  make_task(map, file_);  // refuses a number of labels that the problem does not have
  return map;
}

ProblemType ConfigReader::problem_type(int64_t num_labels) const {
  const json problem = config_.value("problem_type", json());
  if (problem.is_null()) return num_labels == 1 ? ProblemType::kRegression : ProblemType::kSingleLabel;
  if (problem.is_string()) {
    if (const auto known = find_problem_type(problem.get<std::string>())) return *known;
  }
  throw user_error("[{}] expected 'problem_type' to be null, {}, {} or {}, got {}", file_,
                   problem_type_name(ProblemType::kSingleLabel), problem_type_name(ProblemType::kMultiLabel),
                   problem_type_name(ProblemType::kRegression), problem.dump());
}

void ConfigReader::expect_model_type(const char* model_type) const {
  const json type = config_.value("model_type", json(model_type));
  if (type != model_type)
    throw user_error("[{}] expected 'model_type' to be \"{}\", got {}", file_, model_type, type.dump());
}

void ConfigReader::expect_false(const char* key) const {
  if (flag(key, false)) throw user_error("[{}] expected '{}' to be false, got true", file_, key);
}

void ConfigReader::expect_absent(const char* key) const {
  if (config_.contains(key) && !config_[key].is_null())
    throw user_error("[{}] expected no '{}', got {}; such models cannot be trained here", file_, key,
                     config_[key].dump());
}

void ConfigReader::expect_multiple(const char* key, int64_t value, const char* divisor_key,
                                   int64_t divisor) const {
  if (value % divisor == 0) return;
  throw user_error("[{}] expected '{}' to be a multiple of '{}', got {} and {}", file_, key, divisor_key,
                   value, divisor);
}

void write_labels(json& config, const LabelMap& labels) {
  config["problem_type"] = problem_type_name(labels.problem);
  config["id2label"] = json::object();
  config["label2id"] = json::object();
  for (size_t i = 0; i < labels.names.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels.names[i];
    config["label2id"][labels.names[i]] = i;
  }
  config.erase("num_labels");
}

}  // namespace shoehorn
