// What lies in a Hugging Face model directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

inline constexpr std::string_view kConfigFileName = "config.json";
inline constexpr std::string_view kSafetensorsFileName = "model.safetensors";
inline constexpr std::string_view kSafetensorsIndexName = "model.safetensors.index.json";

// model.safetensors; its index and shards; or slices that several processes wrote (tensor_files.h), which other readers
// of Hugging Face's formats cannot take.
enum class WeightsFormat { kSingleFile, kSharded, kSliced };

// Which weights a directory has; the first of these where it has several, as transformers chooses. UserError if
// `directory` is none, has no weights (naming what it has), or only weights in another format: convert those
// to safetensors.
WeightsFormat find_weights(const std::filesystem::path& directory);

struct ModelDirectory {
  std::filesystem::path path;
  std::filesystem::path config;  // path/config.json
  WeightsFormat weights = WeightsFormat::kSingleFile;
  // Those present of the files that a trained model takes along unchanged: tokenizer, generation config, chat
  // template.
  std::vector<std::filesystem::path> companions;
};

// UserError if `path` is not a directory (a hub name such as "google/electra-small" included: nothing is
// downloaded), or has no config.json or no usable weights. Opens no file: contents are checked by whoever
// reads them.
ModelDirectory open_model_directory(const std::filesystem::path& path);

// The companions of a directory, which needs no config or weights. UserError if it is not a directory.
std::vector<std::filesystem::path> list_companions(const std::filesystem::path& directory);

}  // namespace shoehorn
