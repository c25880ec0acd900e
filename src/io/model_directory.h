// The files of a Hugging Face model directory.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

inline constexpr std::string_view kConfigFileName = "config.json";
inline constexpr std::string_view kGenerationConfigName = "generation_config.json";
inline constexpr std::string_view kSafetensorsFileName = "model.safetensors";
inline constexpr std::string_view kSafetensorsIndexName = "model.safetensors.index.json";
// In the directory of a low-rank adapter (state/adapter_config.h), which is no model's.
inline constexpr std::string_view kAdapterConfigName = "adapter_config.json";

// model.safetensors; its index and shards; or slices that several processes wrote (tensor_files.h), which other readers
// of Hugging Face's formats cannot take.
enum class WeightsFormat { kSingleFile, kSharded, kSliced };

// Which weights a directory has; the first of these where it has several, as transformers chooses. UserError if
// `directory` is none, has no weights (naming what it has; of an adapter, what it needs), or only weights in another
// format: convert those to safetensors.
WeightsFormat find_weights(const std::filesystem::path& directory);
// The same; nothing where find_weights would refuse it.
std::optional<WeightsFormat> weights_in(const std::filesystem::path& directory);

struct ModelDirectory {
  std::filesystem::path path;
  std::filesystem::path config;  // path/config.json
  WeightsFormat weights = WeightsFormat::kSingleFile;
  // The existing ones of the files that are copied unchanged along with a trained model: tokenizer,
  // generation config, chat templates.
  std::vector<std::filesystem::path> companions;
};

// Finds the files of a model. UserError if `path` is not a directory (also for a hub name such as
// "google/electra-small": nothing is downloaded), or has no config.json or no usable weights, as an adapter's directory. It
// opens no file; whoever reads a file checks its content.
ModelDirectory open_model_directory(const std::filesystem::path& path);

// The companions in a directory, which needs neither config nor weights. UserError if it is not a directory.
std::vector<std::filesystem::path> list_companions(const std::filesystem::path& directory);

// The path of a companion below its directory: "tokenizer.json", "additional_chat_templates/tools.jinja". Its copy has the
// same one.
std::string companion_name(const std::filesystem::path& companion);

// Whether a file of this companion_name() is one.
bool is_companion(std::string_view name);

// Whether such a file is part of a tokenizer, by its name.
bool belongs_to_tokenizer(const std::filesystem::path& file);

}  // namespace shoehorn
