#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "io/tensor_files.h"
#include "models/bert.h"
#include "models/config_keys.h"
#include "models/decoder_model.h"
#include "models/distilbert.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/open_classifier.h"

namespace shoehorn {

namespace {

using nlohmann::json;

using MakeModel = std::unique_ptr<Model> (*)(const json& config, const std::string& file);

struct Architecture {
  std::string_view model_type;
  MakeModel make_classifier;
  MakeModel make_language_model;  // null: it is no decoder
};

template <typename ModelClass, typename Config>
std::unique_ptr<Model> make(const json& config, const std::string& file) {
  return std::make_unique<ModelClass>(classifier_of_json<ModelClass, Config>(config, file));
}

// `read` is a function of (json, file) that gives the config of a decoder.
template <auto read>
std::unique_ptr<Model> make_classifier(const json& config, const std::string& file) {
  return std::make_unique<DecoderForSequenceClassification>(
      make_decoder(read(config, file)), ConfigReader(config, file).label_map(), format_json(config));
}

template <auto read>
std::unique_ptr<Model> make_language_model(const json& config, const std::string& file) {
  return std::make_unique<CausalLanguageModel>(make_decoder(read(config, file)), format_json(config));
}

template <auto read>
constexpr Architecture decoder(std::string_view model_type) {
  return {model_type, make_classifier<read>, make_language_model<read>};
}

// The first is that of a config without a model_type.
constexpr Architecture kArchitectures[] = {
    {"bert", make<BertForSequenceClassification, BertConfig>, nullptr},
    {"distilbert", make<DistilBertForSequenceClassification, DistilBertConfig>, nullptr},
    decoder<Gpt2Config::from_json>("gpt2"),
    decoder<llama_from_json>("llama"),
    decoder<mistral_from_json>("mistral"),
    decoder<qwen2_from_json>("qwen2"),
    decoder<qwen3_from_json>("qwen3"),
};

// A language model from the text of a config.json.
template <const char* kConfig>
std::unique_ptr<Model> language_model() {
  return model_from_json(parse_json(kConfig, "a named shape"), "a named shape", Head::kCausalLanguageModel);
}

constexpr char kGpt2[] = R"({"model_type": "gpt2"})";
// SmolLM2-135M.
constexpr char kLlama135m[] = R"({
  "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
  "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05, "rope_theta": 100000, "tie_word_embeddings": true})";
constexpr char kQwen2Half[] = R"({
  "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
  "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true})";
// Llama 3.2 1B.
constexpr char kLlama1b[] = R"({
  "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
  "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}})";
// Llama 3 70B.
constexpr char kLlama70b[] = R"({
  "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": false})";

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
    {"gpt2", language_model<kGpt2>},
    {"llama-135m", language_model<kLlama135m>},
    {"qwen2-0.5b", language_model<kQwen2Half>},
    {"llama-1b", language_model<kLlama1b>},
    {"llama-70b", language_model<kLlama70b>},
};

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

}  // namespace

Head head_of(const json& config) {
  const json classes = config.is_object() ? config.value("architectures", json()) : json();
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return Head::kSequenceClassification;
  const std::string name = classes[0].get<std::string>();
  return name.ends_with("LMHeadModel") || name.ends_with("ForCausalLM") ? Head::kCausalLanguageModel
                                                                        : Head::kSequenceClassification;
}

std::unique_ptr<Model> model_from_json(const json& config, const std::string& file, Head head) {
  if (!config.is_object()) throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
  const json type = config.value("model_type", json(kArchitectures[0].model_type));
  std::vector<std::string_view> known;
  for (const Architecture& architecture : kArchitectures) {
    const MakeModel make =
        head == Head::kCausalLanguageModel ? architecture.make_language_model : architecture.make_classifier;
    if (make == nullptr) continue;
    if (type == architecture.model_type) return make(config, file);
    known.push_back(architecture.model_type);
  }
  throw user_error(
      "[{}] expected 'model_type' to be one of {}{}, got {}; other architectures are not supported yet", file,
      fmt::join(known, ", "), head == Head::kCausalLanguageModel ? " for a language model" : "", type.dump());
}

std::unique_ptr<Model> model_of_config(const std::filesystem::path& file, std::optional<Head> head) {
  const json config = read_json(file);
  return model_from_json(config, file.string(), head.value_or(head_of(config)));
}

std::unique_ptr<Model> model_of_directory(const std::filesystem::path& directory, std::optional<Head> head) {
  const ModelDirectory opened = open_model_directory(directory);
  std::unique_ptr<Model> model = model_of_config(opened.config, head);
  if (const auto* language_model = dynamic_cast<const CausalLanguageModel*>(model.get());
      language_model != nullptr && language_model->ties_word_embeddings() &&
      has_head_of_its_own(opened.path, *language_model)) {
    json config = read_json(opened.config);
    config["tie_word_embeddings"] = false;
    model = model_from_json(config, opened.config.string(), Head::kCausalLanguageModel);
    model->add_notice(fmt::format(
        "{}: config.json says that the head is the table of the embeddings, but the files have another one: they "
        "are trained apart, and saved so",
        opened.path.string()));
  }
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
