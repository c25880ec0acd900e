#include "cli/model_source.h"

#include "base/error.h"
#include "base/format.h"
#include "io/file.h"
#include "io/model_directory.h"
#include "io/safetensors.h"
#include "model/task.h"
#include "models/registry.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"

namespace shoehorn {

namespace {

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
  source.model = AutoModelForSequenceClassification::from_config(has_config ? named / kAdapterModelConfigName
                                                                            : base.config);
  if (!has_config) adopt_labels(*source.model, named);
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
  if (allow_shapes && !path_exists(name_or_path)) source.model = model_of_shape(name_or_path);
  if (source.model != nullptr) return source;
  if (allow_shapes && !path_exists(name_or_path)) {
    const std::string nearest = nearest_name(name_or_path, shape_names());
    throw user_error(
        "[--model_name_or_path {}] expected a directory with config.json or one of the shapes {}, got neither{}; "
        "nothing is downloaded",
        name_or_path, fmt::join(shape_names(), ", "),
        nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest));
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
  source.model = need_weights || !path_exists(config)
                     ? AutoModelForSequenceClassification::from_pretrained(source.directory)
                     : AutoModelForSequenceClassification::from_config(config);
  source.companions = list_companions(source.directory);
  return source;
}

}  // namespace shoehorn
