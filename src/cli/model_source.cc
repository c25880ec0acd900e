#include "cli/model_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arguments/block_arguments.h"
#include "base/error.h"
#include "base/format.h"
#include "io/file.h"
#include "io/hub_name.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/safetensors.h"
#include "io/tensor_files.h"
#include "model/task.h"
#include "models/registry.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"
#include "tokenize/tokenizer_side_files.h"
#include "tokenize/vocab_merges_files.h"

namespace shoehorn {

namespace {

std::optional<Head> head_of_task(const std::string& task) {
  if (task.empty()) return std::nullopt;
  return task == kTextClassification ? Head::kSequenceClassification : Head::kCausalLanguageModel;
}

// PEFT's adapters say nothing of the labels: then their number is that of the rows of the head that was saved.
void adopt_labels(Model& model, const std::filesystem::path& adapter) {
  const SafetensorsFile file = SafetensorsFile::open(adapter / kAdapterWeightsName);
  const TensorEntry* weight = file.find("base_model.model." + model.head_weight());
  if (weight == nullptr || weight->shape.empty() || weight->shape[0] == model.num_labels()) return;
  const int64_t labels = weight->shape[0];
  // As transformers takes a config without a problem_type.
  const ProblemType problem = labels == 1 ? ProblemType::kRegression : model.task().label_map().problem;
  model.set_labels({.problem = problem, .names = default_labels(labels)});
}

// One value of --config_overrides: true, false or null, in Python's spelling too, a number, or else text.
nlohmann::json override_value(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  if (text == "None" || text == "null") return nullptr;
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  return value.is_boolean() || value.is_number() ? value : nlohmann::json(text);
}

void apply_overrides(const std::string& overrides, nlohmann::json& config) {
  for (size_t at = 0; at < overrides.size();) {
    const size_t end = std::min(overrides.find(',', at), overrides.size());
    const std::string one = overrides.substr(at, end - at);
    at = end + 1;
    const size_t equal = one.find('=');
    if (equal == std::string::npos || equal == 0)
      throw user_error("[--config_overrides] expected key=value pairs with commas between them, got '{}'",
                       one);
    const std::string key = config_key_of(config, one.substr(0, equal));
    // Without names the model_type is unknown, which model_from_json refuses.
    const std::vector<std::string> names = config_key_names(config);
    if (!config.contains(key) && !names.empty() && !std::binary_search(names.begin(), names.end(), key)) {
      const std::string nearest = nearest_name(key, names);
      throw user_error("[--config_overrides] expected a key that the model reads, got '{}'{}", key,
                       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
    }
    set_config_key(config, key, override_value(one.substr(equal + 1)));
  }
}

ModelSource new_model(const TrainingArguments& args) {
  std::string file = "--model_type " + args.model_type;
  nlohmann::json config = {{"model_type", args.model_type}};
  if (!args.config_name.empty()) {
    const std::filesystem::path named = args.config_name;
    file = std::filesystem::is_directory(named) ? named / kConfigFileName : named;
    config = read_json(file);
    if (!args.model_type.empty() && config.is_object() &&
        config.value("model_type", nlohmann::json()) != args.model_type)
      throw user_error("[--model_type] expected that of {}, got {}; give one of the two", file,
                       args.model_type);
  }
  if (config.is_object()) apply_overrides(args.config_overrides, config);
  ModelSource source;
  source.model = model_of_config(config, file, head_of_task(args.task));
  return source;
}

// An adapter with its base; its settings are written to lora_* of `args`.
ModelSource open_adapter(TrainingArguments& args) {
  const std::filesystem::path named = args.model_name_or_path;
  verify_companions(named);
  const AdapterConfig config = read_adapter_config(named);
  const ModelDirectory base = open_model_directory(base_model_directory(named, config));
  const bool has_config = path_exists(named / kAdapterModelConfigName);
  ModelSource source;
  source.model = has_config ? model_of_config(named / kAdapterModelConfigName, head_of_task(args.task))
                            : model_of_files(base.path, head_of_task(args.task));
  check_weight_tying(named, config, source.model->other_names());
  if (!has_config && !source.model->head_weight().empty()) adopt_labels(*source.model, named);
  source.directory = base.path;
  source.adapter = named;
  source.tokenizer_name = args.tokenizer_name;
  args.lora_rank = config.lora.rank;
  args.lora_alpha = config.lora.alpha;
  args.lora_dropout = config.lora.dropout;
  args.lora_target = config.lora.targets;
  args.lora_modules_to_save = config.lora.modules_to_save;
  return source;
}

std::string shown_value(const auto& value) {
  return fmt::format("{}", value);
}

std::string shown_value(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ","));
}

// Before its labels are compared with a file's: those of a model without a head mean nothing.
void check_has_head(const ModelSource& source) {
  const std::string head = source.model->head_weight();
  if (is_language_model(*source.model) || head.empty() ||
      TensorFiles::open_weights(source.directory).find(head) != nullptr)
    return;
  throw user_error(
      "[--model_name_or_path {}] expected a model that was trained for its task, got one without {}; what it would say "
      "is random: train it first",
      source.directory.string(), head);
}

}  // namespace

std::filesystem::path ModelSource::tokenizer() const {
  if (!tokenizer_name.empty()) return tokenizer_name;
  const auto has = [&](const char* name) { return path_exists(adapter / name); };
  const bool has_own = !adapter.empty() && (has("tokenizer.json") || has("vocab.txt") ||
                                            has_vocab_and_merges(TokenizerSideFiles(adapter)));
  return has_own ? adapter : directory;
}

bool is_language_model(const Model& model) {
  return model.task().label_shape().kind == LabelKind::kNextToken;
}

ModelSource open_trained_model(TrainingArguments& args) {
  if (is_adapter_directory(args.model_name_or_path)) return open_adapter(args);
  ModelSource source = open_model(args, false, true);
  check_has_head(source);
  return source;
}

ModelSource open_model_to_train(const ParsedArguments& parsed, TrainingArguments& args) {
  if (!is_adapter_directory(args.model_name_or_path)) return open_model(args, false, true);
  const TrainingArguments given = args;
  ModelSource source = open_adapter(args);
  source.companions = list_companions(source.tokenizer());
  const auto check = [&](const char* name, const auto& was_given, const auto& has) {
    if (!parsed.sets(name) || was_given == has) return;
    throw user_error(
        "[--{}] expected {}, which the adapter in {} has, got {}; leave it out, or give its base model ({}) for new adapters",
        name, shown_value(has), given.model_name_or_path, shown_value(was_given), source.directory.string());
  };
  check("lora_rank", given.lora_rank, args.lora_rank);
  check("lora_alpha", given.lora_alpha, args.lora_alpha);
  check("lora_target", given.lora_target, args.lora_target);
  check("lora_modules_to_save", given.lora_modules_to_save, args.lora_modules_to_save);
  if (parsed.sets("lora_dropout")) args.lora_dropout = given.lora_dropout;
  return source;
}

ModelSource open_model(const std::string& name_or_path, const std::string& task, bool allow_shapes,
                       bool need_weights) {
  ModelSource source;
  if (allow_shapes && !path_exists(name_or_path))
    source.model = model_of_shape(name_or_path, head_of_task(task));
  if (source.model != nullptr) return source;
  if (allow_shapes && !path_exists(name_or_path)) {
    const std::string nearest = nearest_name(name_or_path, shape_names());
    throw user_error(
        "[--model_name_or_path {}] expected a directory with config.json or one of the shapes {}, got neither{}",
        name_or_path, fmt::join(shape_names(), ", "),
        nearest.empty() ? download_hint(name_or_path) : fmt::format("; did you mean '{}'?", nearest));
  }
  if (is_adapter_directory(name_or_path)) {
    throw user_error(
        "[--model_name_or_path {}] expected a model, got an adapter ({}); train, eval, predict and generate take it as it is, "
        "other commands its base model with --lora_rank, or a model into which it is merged (train with --lora_merge)",
        name_or_path, kAdapterConfigName);
  }
  source.directory = name_or_path;
  const std::filesystem::path config = source.directory / kConfigFileName;
  // Where there is no config, from_pretrained says what is wrong with the directory.
  source.model = need_weights || !path_exists(config)
                     ? model_of_directory(source.directory, head_of_task(task))
                     : model_of_files(source.directory, head_of_task(task));
  source.companions = list_companions(source.directory);
  return source;
}

bool names_new_model(const TrainingArguments& args) {
  return !args.config_name.empty() || !args.model_type.empty();
}

ModelSource open_model(const TrainingArguments& args, bool allow_shapes, bool need_weights) {
  ModelSource source = names_new_model(args)
                           ? new_model(args)
                           : open_model(args.model_name_or_path, args.task, allow_shapes, need_weights);
  if (args.tokenizer_name.empty()) return source;
  if (!path_exists(args.tokenizer_name)) {
    throw user_error(
        "[--tokenizer_name {}] expected a directory with tokenizer.json, vocab.txt, or vocab.json and merges.txt, got nothing "
        "of that name{}",
        args.tokenizer_name, download_hint(args.tokenizer_name));
  }
  source.tokenizer_name = args.tokenizer_name;
  // What the model's directory has besides a tokenizer stays.
  std::erase_if(source.companions,
                [](const std::filesystem::path& file) { return belongs_to_tokenizer(file); });
  for (const std::filesystem::path& file : list_companions(source.tokenizer_name)) {
    if (belongs_to_tokenizer(file)) source.companions.push_back(file);
  }
  return source;
}

}  // namespace shoehorn
