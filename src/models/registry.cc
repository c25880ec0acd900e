#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/tensor_files.h"
#include "models/architecture_list.h"
#include "models/bert.h"
#include "models/config_keys.h"
#include "models/decoder_model.h"

namespace shoehorn {

namespace {

using nlohmann::json;

const Architecture* find_architecture(const json& model_type) {
  const auto found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const Architecture* architecture) { return model_type == architecture->model_type; });
  return found == std::end(kArchitectures) ? nullptr : *found;
}

json model_type_of(const json& config) {
  return config.value("model_type", json(kArchitectures[0]->model_type));
}

// Whether the files have a table and a head with other numbers.
bool has_head_of_its_own(const std::filesystem::path& directory, const CausalLanguageModel& model) {
  const TensorFiles files = TensorFiles::open_weights(directory);
  const TensorEntry* const table = files.find(model.embedding());
  const TensorEntry* const head = files.find(CausalLanguageModel::kHead);
  if (table == nullptr || head == nullptr) return false;
  if (table->bytes != head->bytes || table->dtype != head->dtype) return true;
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<std::byte> ours(static_cast<size_t>(std::min(kPieceBytes, table->bytes)));
  std::vector<std::byte> theirs(ours.size());
  for (int64_t at = 0; at < table->bytes; at += kPieceBytes) {
    const auto count = static_cast<size_t>(std::min(kPieceBytes, table->bytes - at));
    files.read_range(model.embedding(), at, std::span(ours).first(count));
    files.read_range(CausalLanguageModel::kHead, at, std::span(theirs).first(count));
    if (!std::equal(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(count), theirs.begin()))
      return true;
  }
  return false;
}

// The keys that transformers knows by a second name under the first.
json with_own_keys(const json& config, const Architecture& architecture, const std::string& file) {
  json own = config;
  for (const ConfigKeyAlias& alias : architecture.config_key_aliases) {
    const auto found = own.find(std::string(alias.alias));
    if (found == own.end()) continue;
    const json value = *found;
    own.erase(found);
    const std::string key(alias.key);
    if (own.contains(key) && own[key] != value) {
      throw user_error(
          "[{}] expected '{}' and '{}', which are the same, to be alike, got {} and {}; remove one", file,
          alias.alias, key, value.dump(), own[key].dump());
    }
    own[key] = value;
  }
  return own;
}

bool is_decoder(const Architecture* architecture) {
  return architecture != nullptr && architecture->make_language_model != nullptr;
}

// None: that of a class without either head.
std::optional<Head> head_of_class(const json& config) {
  if (!config.is_object()) return std::nullopt;
  const json classes = config.value("architectures", json());
  if (classes.is_null() || (classes.is_array() && classes.empty())) {
    return is_decoder(find_architecture(model_type_of(config))) ? Head::kCausalLanguageModel
                                                                : Head::kSequenceClassification;
  }
  if (!classes.is_array() || !classes[0].is_string()) return std::nullopt;
  const std::string name = classes[0].get<std::string>();
  if (name.ends_with("LMHeadModel") || name.ends_with("ForCausalLM")) return Head::kCausalLanguageModel;
  if (name.ends_with("ForSequenceClassification")) return Head::kSequenceClassification;
  return std::nullopt;
}

}  // namespace

Head head_of(const json& config) {
  return head_of_class(config).value_or(Head::kSequenceClassification);
}

std::unique_ptr<Model> model_from_json(const json& config, const std::string& file, Head head) {
  if (!config.is_object()) throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
  const json type = model_type_of(config);
  const auto maker_of = [&](const Architecture& architecture) {
    return head == Head::kCausalLanguageModel ? architecture.make_language_model
                                              : architecture.make_classifier;
  };
  const Architecture* const found = find_architecture(type);
  if (found != nullptr && maker_of(*found) != nullptr) {
    ConfigReader(config, file).expect_absent("quantization_config");
    return maker_of(*found)(with_own_keys(config, *found, file), file);
  }
  std::vector<std::string_view> known;
  for (const Architecture* architecture : kArchitectures) {
    if (maker_of(*architecture) != nullptr) known.push_back(architecture->model_type);
  }
  throw user_error(
      "[{}] expected 'model_type' to be one of {}{}, got {}; other architectures are not supported yet", file,
      fmt::join(known, ", "), head == Head::kCausalLanguageModel ? " for a language model" : "", type.dump());
}

std::unique_ptr<Model> model_of_config(const json& config, const std::string& file,
                                       std::optional<Head> head) {
  std::unique_ptr<Model> model = model_from_json(config, file, head.value_or(head_of(config)));
  if (!head && !head_of_class(config) && is_decoder(find_architecture(model_type_of(config)))) {
    model->add_notice(
        fmt::format("{}: 'architectures' is {}, which says no head: taken as a classifier; --task causal-lm "
                    "takes it as a language model",
                    file, config["architectures"].dump()));
  }
  return model;
}

std::unique_ptr<Model> model_of_config(const std::filesystem::path& file, std::optional<Head> head) {
  return model_of_config(read_json(file), file.string(), head);
}

std::unique_ptr<Model> model_of_files(const std::filesystem::path& directory, std::optional<Head> head) {
  const std::filesystem::path file = directory / kConfigFileName;
  json config = read_json(file);
  std::unique_ptr<Model> model = model_of_config(config, file.string(), head);
  const auto* language_model = dynamic_cast<const CausalLanguageModel*>(model.get());
  if (language_model == nullptr || !language_model->ties_word_embeddings() || !weights_in(directory) ||
      !has_head_of_its_own(directory, *language_model))
    return model;
  config["tie_word_embeddings"] = false;
  model = model_from_json(config, file.string(), Head::kCausalLanguageModel);
  model->add_notice(fmt::format(
      "{}: config.json says that the head is the table of the embeddings, but the files have another one: they "
      "are trained apart, and saved so",
      directory.string()));
  return model;
}

std::unique_ptr<Model> model_of_directory(const std::filesystem::path& directory, std::optional<Head> head) {
  const ModelDirectory opened = open_model_directory(directory);
  verify_companions(directory);
  std::unique_ptr<Model> model = model_of_files(opened.path, head);
  model->set_weights_directory(opened.path);
  return model;
}

std::unique_ptr<Model> AutoModelForSequenceClassification::from_config(const std::filesystem::path& file) {
  return model_of_config(file, Head::kSequenceClassification);
}

std::unique_ptr<Model> AutoModelForSequenceClassification::from_pretrained(
    const std::filesystem::path& directory) {
  return model_of_directory(directory, Head::kSequenceClassification);
}

std::unique_ptr<Model> AutoModelForCausalLM::from_config(const std::filesystem::path& file) {
  return model_of_config(file, Head::kCausalLanguageModel);
}

std::unique_ptr<Model> AutoModelForCausalLM::from_pretrained(const std::filesystem::path& directory) {
  return model_of_directory(directory, Head::kCausalLanguageModel);
}

std::vector<std::string> config_key_names(const json& config) {
  const Architecture* const architecture = find_architecture(model_type_of(config));
  if (architecture == nullptr) return {};
  std::vector<std::string> names(std::begin(kSharedConfigKeys), std::end(kSharedConfigKeys));
  names.insert(names.end(), architecture->config_keys.begin(), architecture->config_keys.end());
  std::sort(names.begin(), names.end());
  return names;
}

std::string config_key_of(const json& config, std::string_view name) {
  if (const Architecture* const architecture = find_architecture(model_type_of(config))) {
    for (const ConfigKeyAlias& alias : architecture->config_key_aliases) {
      if (alias.alias == name) return std::string(alias.key);
    }
  }
  return std::string(name);
}

void set_config_key(json& config, const std::string& key, const json& value) {
  bool is_of_rope = false;
  for (const char* rope : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(rope);
    if (found == config.end() || !found->is_object() || !found->contains(key)) continue;
    (*found)[key] = value;
    is_of_rope = true;
  }
  if (!is_of_rope || config.contains(key)) config[key] = value;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Architecture* architecture : kArchitectures) {
    for (const NamedShape& shape : architecture->shapes) names.emplace_back(shape.name);
  }
  return names;
}

std::unique_ptr<Model> model_of_shape(std::string_view name, std::optional<Head> head) {
  for (const Architecture* architecture : kArchitectures) {
    for (const NamedShape& shape : architecture->shapes) {
      if (shape.name != name) continue;
      return model_of_config(parse_json(std::string(shape.config), std::string(name)), std::string(name),
                             head);
    }
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
