#include "cli/model_source.h"

#include <optional>

#include "base/error.h"
#include "io/file.h"
#include "io/model_directory.h"
#include "io/safetensors.h"
#include "train/adapter_config.h"
#include "train/adapter_tensors.h"

namespace shoehorn {

namespace {

// 4 layers of 256 (Turc et al., 2019).
BertConfig bert_mini() {
  BertConfig config;
  config.hidden_size = 256;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  return config;
}

// Sizes that have names, and no weights.
std::optional<BertConfig> known_shape(const std::string& name) {
  if (name == "bert-mini") return bert_mini();
  if (name == "bert-base") return BertConfig::bert_base();
  if (name == "bert-large") return BertConfig::bert_large();
  return std::nullopt;
}

// PEFT's adapters say nothing of the classes: then the number of classes is that of the classifier that was
// saved.
void adopt_classes(BertForSequenceClassification& model, const std::filesystem::path& adapter) {
  const SafetensorsFile file = SafetensorsFile::open(adapter / kAdapterWeightsName);
  const TensorEntry* weight = file.find("base_model.model.classifier.weight");
  if (weight == nullptr || weight->shape.empty() || weight->shape[0] == model.num_labels()) return;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < weight->shape[0]; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  model.set_labels(labels);
}

}  // namespace

std::filesystem::path ModelSource::tokenizer() const {
  const auto has = [&](const char* name) { return path_exists(adapter / name); };
  return !adapter.empty() && (has("tokenizer.json") || has("vocab.txt")) ? adapter : directory;
}

ModelSource open_trained_model(TrainingArguments& args) {
  const std::filesystem::path named = args.model_name_or_path;
  if (!is_adapter_directory(named)) return open_model(args.model_name_or_path, false, true);
  const AdapterConfig config = read_adapter_config(named);
  const ModelDirectory base = open_model_directory(base_model_directory(named, config));
  const bool has_config = path_exists(named / kAdapterModelConfigName);
  ModelSource source;
  source.model = std::make_unique<BertForSequenceClassification>(
      BertForSequenceClassification::from_config(has_config ? named / kAdapterModelConfigName : base.config));
  if (!has_config) adopt_classes(*source.model, named);
  source.directory = base.path;
  source.adapter = named;
  args.lora_rank = config.lora.rank;
  args.lora_alpha = config.lora.alpha;
  args.lora_dropout = config.lora.dropout;
  args.lora_target = config.lora.targets;
  args.lora_modules_to_save = config.lora.modules_to_save;
  return source;
}

ModelSource open_model(const std::string& name_or_path, bool allow_shapes, bool need_weights) {
  ModelSource source;
  if (const auto shape = known_shape(name_or_path); shape && allow_shapes && !path_exists(name_or_path)) {
    source.model = std::make_unique<BertForSequenceClassification>(*shape);
    return source;
  }
  if (is_adapter_directory(name_or_path)) {
    throw user_error(
        "[--model_name_or_path {}] expected a model, got an adapter ({}); give its base model with "
        "--lora_rank, or the adapter to eval or predict",
        name_or_path, kAdapterConfigName);
  }
  source.directory = name_or_path;
  const std::filesystem::path config = source.directory / kConfigFileName;
  // Where there is no config, from_pretrained says what is wrong with the directory.
  source.model = std::make_unique<BertForSequenceClassification>(
      need_weights || !path_exists(config) ? BertForSequenceClassification::from_pretrained(source.directory)
                                           : BertForSequenceClassification::from_config(config));
  source.companions = list_companions(source.directory);
  return source;
}

}  // namespace shoehorn
