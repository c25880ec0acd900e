#include "cli/trained_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "state/adapter_config.h"
#include "state/checkpoint_record.h"

namespace shoehorn {

namespace {

bool are_texts(const nlohmann::json& values) {
  return values.is_array() &&
         std::ranges::all_of(values, [](const nlohmann::json& value) { return value.is_string(); });
}

}  // namespace

std::string notice_of_first_model(const ParsedArguments& parsed, std::string_view verb) {
  const TrainingArguments& args = parsed.arguments;
  std::error_code error;
  if (parsed.gives("model_name_or_path") || !parsed.gives("config") || !path_exists(args.output_dir) ||
      std::filesystem::equivalent(args.model_name_or_path, args.output_dir, error) ||
      !(path_exists(std::filesystem::path(args.output_dir) / kConfigFileName) ||
        is_adapter_directory(args.output_dir)))
    return "";
  return fmt::format("{} {}, as --config says; with --model_name_or_path {} it is what was trained\n", verb,
                     args.model_name_or_path, args.output_dir);
}

TrainedSettings read_trained_settings(const ModelSource& source) {
  const std::filesystem::path file =
      (source.adapter.empty() ? source.directory : source.adapter) / kArgumentsFile;
  if (!path_exists(file)) return {};
  const nlohmann::json written = read_json(file);
  const auto value = [&](const char* key) { return written.value(key, nlohmann::json()); };
  TrainedSettings trained{.file = file};
  if (!written.is_object()) return trained;
  if (const nlohmann::json length = value("max_seq_length"); length.is_number_integer() && length >= 1)
    trained.max_seq_length = length.get<int64_t>();
  if (const nlohmann::json block = value("block_size"); block.is_number_integer() && block >= 1)
    trained.block_size = block.get<int64_t>();
  if (const nlohmann::json texts = value("text_column_names"); are_texts(texts))
    trained.columns.preferred_text_columns = texts.get<std::vector<std::string>>();
  if (const nlohmann::json labels = value("label_column_name"); labels.is_string())
    trained.columns.preferred_label_columns = labels.get<std::string>();
  if (const nlohmann::json weights = value("class_weights"); !weights.empty())
    trained.class_weights = weights.dump();
  return trained;
}

std::string take_trained_length(TrainingArguments& args, const TrainedSettings& trained, bool gives_length) {
  if (gives_length || !trained.max_seq_length || *trained.max_seq_length == args.max_seq_length) return {};
  args.max_seq_length = *trained.max_seq_length;
  return fmt::format("max_seq_length: {} tokens, as the model was trained ({})\n", args.max_seq_length,
                     trained.file.string());
}

std::string take_trained_block(TrainingArguments& args, const TrainedSettings& trained) {
  if (args.block_size || !trained.block_size) return {};
  args.block_size = trained.block_size;
  return fmt::format("block_size: {} tokens, as the model was trained ({})\n", *args.block_size,
                     trained.file.string());
}

}  // namespace shoehorn
