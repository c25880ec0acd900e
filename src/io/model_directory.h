// The files of a Hugging Face model directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

inline constexpr std::string_view kConfigFileName = "config.json";
inline constexpr std::string_view kSafetensorsFileName = "model.safetensors";
inline constexpr std::string_view kSafetensorsIndexName = "model.safetensors.index.json";

enum class WeightsFormat { kSingleFile, kSharded };  // model.safetensors, or an index and its shards

// The kind of weights that a directory has; the single file if it has both, as in transformers. UserError if
// `directory` is not a directory, has no weights (the message names what it has), or has weights in another
// format only (the message says to convert them).
WeightsFormat find_weights(const std::filesystem::path& directory);

struct ModelDirectory {
  std::filesystem::path path;
  std::filesystem::path config;  // path/config.json
  WeightsFormat weights = WeightsFormat::kSingleFile;
  // The existing ones of the files that are copied unchanged along with a trained model: tokenizer,
  // generation config, chat template.
  std::vector<std::filesystem::path> companions;
};

// Finds the files of a model. UserError if `path` is not a directory (also for a hub name such as
// "google/electra-small": nothing is downloaded), or has no config.json or no usable weights. It opens no
// file; whoever reads a file checks its content.
ModelDirectory open_model_directory(const std::filesystem::path& path);

// The companions in a directory, which needs neither config nor weights. UserError if it is not a directory.
std::vector<std::filesystem::path> list_companions(const std::filesystem::path& directory);

}  // namespace shoehorn
