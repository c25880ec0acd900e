#include "cli/model_source.h"

#include <omp.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "io/safetensors.h"
#include "train/adapter_config.h"
#include "train/adapter_tensors.h"
#include "train/text_data.h"

namespace shoehorn {

namespace {

void refuse_regression(const LabelMap& labels, const std::string& file) {
  if (labels.is_regression) {
    throw user_error(
        "[{}] expected classes as labels, got numbers with fractions; regression is not supported yet", file);
  }
}

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

LabelMap labels_of(const BertForSequenceClassification& model) {
  LabelMap labels;
  labels.names = model.labels();
  return labels;
}

ModelSource read_model(const std::filesystem::path& config) {
  const nlohmann::json json = read_json(config);
  ModelSource source;
  source.model = std::make_unique<BertForSequenceClassification>(BertConfig::from_json(json, config.string()),
                                                                 json.dump());
  return source;
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
  const auto has = [&](const char* name) { return std::filesystem::exists(adapter / name); };
  return !adapter.empty() && (has("tokenizer.json") || has("vocab.txt")) ? adapter : directory;
}

ModelSource open_trained_model(TrainingArguments& args) {
  const std::filesystem::path named = args.model_name_or_path;
  if (!is_adapter_directory(named)) return open_model(args.model_name_or_path, false, true);
  const AdapterConfig config = read_adapter_config(named);
  const ModelDirectory base = open_model_directory(base_model_directory(named, config));
  const bool has_config = std::filesystem::exists(named / kAdapterModelConfigName);
  ModelSource source = read_model(has_config ? named / kAdapterModelConfigName : base.config);
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
  if (const auto shape = known_shape(name_or_path);
      shape && allow_shapes && !std::filesystem::exists(name_or_path)) {
    source.model = std::make_unique<BertForSequenceClassification>(*shape);
    return source;
  }
  if (is_adapter_directory(name_or_path)) {
    throw user_error(
        "[--model_name_or_path {}] expected a model, got an adapter ({}); give its base model with "
        "--lora_rank, "
        "or the adapter to eval or predict",
        name_or_path, kAdapterConfigName);
  }
  source.directory = name_or_path;
  std::filesystem::path config = source.directory / kConfigFileName;
  if (need_weights || !std::filesystem::exists(config)) {
    const ModelDirectory directory = open_model_directory(name_or_path);
    source.companions = directory.companions;
    config = directory.config;
  } else {
    source.companions = list_companions(source.directory);
  }
  source.model = read_model(config).model;
  return source;
}

LoadedDataset load_labelled_file(const TrainingArguments& args, const ModelSource& source,
                                 const Tokenizer& tokenizer, const std::string& file, bool read_labels,
                                 std::optional<int64_t> max_samples) {
  const LabelMap labels = labels_of(*source.model);
  LoadOptions options = load_options_of(args);
  options.max_samples = max_samples.value_or(0);
  options.read_labels = read_labels;
  options.labels = &labels;
  return load_dataset(
      file,
      tokenize_with(tokenizer, max_tokens_of(args, source.model->max_positions()), omp_get_max_threads()),
      options);
}

Dataset random_steps(const TrainingArguments& args, const Model& model, int64_t steps) {
  if (args.max_seq_length > model.max_positions()) {
    throw user_error("[--sequence_length] expected at most {}, the model's positions, got {}",
                     model.max_positions(), args.max_seq_length);
  }
  const auto vocabulary = static_cast<int32_t>(model.vocab_size());
  return Dataset::random_tokens(
      {.count = args.per_device_train_batch_size * args.gradient_accumulation_steps * steps,
       .length = args.max_seq_length,
       .vocab_begin = std::min<int32_t>(100, vocabulary - 1),
       .vocab_end = std::min<int32_t>(30000, vocabulary),
       .num_labels = static_cast<int32_t>(model.num_labels()),
       .seed = static_cast<uint64_t>(args.seed)});
}

TrainingArguments without_files(TrainingArguments args) {
  args.save_strategy = "no";
  args.eval_strategy = "no";
  args.logging_strategy = "no";
  args.report_to.clear();
  args.batch_size_ramp.clear();
  return args;
}

TextTask load_text_task(const TrainingArguments& args, ModelSource& source) {
  TextTask task;
  if (args.train_file.empty()) return task;
  task.tokenizer = Tokenizer::load(source.directory);
  const TokenizeFunction tokenize = tokenize_with(
      *task.tokenizer, max_tokens_of(args, source.model->max_positions()), omp_get_max_threads());
  LoadOptions options = load_options_of(args);
  options.max_samples = args.max_train_samples.value_or(0);
  task.train = load_dataset(args.train_file, tokenize, options);
  refuse_regression(task.train.labels, args.train_file);
  if (task.train.labels.names.size() < 2) {
    throw user_error("[{}] expected at least two different labels, got {}; nothing can be learned from one",
                     args.train_file, task.train.labels.names.size());
  }
  source.model->set_labels(task.train.labels.names);
  if (!args.validation_file.empty()) {
    LoadOptions validation = load_options_of(args);
    validation.max_samples = args.max_eval_samples.value_or(0);
    validation.labels = &task.train.labels;
    task.validation = load_dataset(args.validation_file, tokenize, validation);
  }
  return task;
}

}  // namespace shoehorn
