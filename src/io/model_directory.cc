#include "io/model_directory.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "io/file.h"
#include "io/hub_name.h"
#include "io/owner.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 13> kCompanions = {"tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "vocab.txt",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "special_tokens_map.json",
                                                          "added_tokens.json",
                                                          "tokenizer.model",
                                                          "spiece.model",
                                                          "sentencepiece.bpe.model",
                                                          "generation_config.json",
                                                          "chat_template.jinja",
                                                          "preprocessor_config.json"};

// transformers reads each *.jinja in it as a chat template beside chat_template.jinja.
constexpr std::string_view kChatTemplates = "additional_chat_templates";

// Weights that need code or formats of other systems to read.
constexpr std::array<std::string_view, 5> kForeignWeights = {"pytorch_model.bin",
                                                             "pytorch_model.bin.index.json", "tf_model.h5",
                                                             "flax_model.msgpack", "model.ckpt.index"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// "vocab.txt, tokenizer.json, …": at most a dozen names, sorted.
std::string contents_of(const fs::path& directory) {
  constexpr size_t kMost = 12;
  std::vector<std::string> names = list_directory(directory);
  if (names.empty()) return "an empty directory";
  const size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

void check_is_directory(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return;
  if (fs::exists(status)) {
    throw user_error("[{}] expected a model directory, got a file; give the directory that holds it",
                     path.string());
  }
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    throw_system_error(path, "look into this directory", error.value());
  throw user_error(
      "[{}] expected a local directory with config.json and model.safetensors, got nothing of that name{}",
      path.string(), download_hint(path.string()));
}

[[noreturn]] void throw_no_model(const fs::path& directory, std::string_view expected) {
  if (path_exists(directory / kAdapterConfigName)) {
    throw user_error(
        "[{}] expected {}, got an adapter ({}); load its base model, which base_model_name_or_path there names, and give this "
        "directory to the Trainer or the TextGenerator as its adapter",
        directory.string(), expected, kAdapterConfigName);
  }
  throw user_error("[{}] expected {}, got {}; is it a model directory?", directory.string(), expected,
                   contents_of(directory));
}

}  // namespace

std::optional<WeightsFormat> weights_in(const fs::path& directory) {
  if (path_exists(directory / kSafetensorsFileName)) return WeightsFormat::kSingleFile;
  if (path_exists(directory / kSafetensorsIndexName)) return WeightsFormat::kSharded;
  if (!list_owner_files(directory / kSafetensorsFileName).empty()) return WeightsFormat::kSliced;
  return std::nullopt;
}

WeightsFormat find_weights(const fs::path& directory) {
  check_is_directory(directory);
  if (const auto found = weights_in(directory)) return *found;
  for (const std::string_view name : kForeignWeights) {
    if (is_file(directory / name)) {
      throw user_error(
          "[{}] expected {}, got only {}; convert it to safetensors first, for instance with transformers' "
          "from_pretrained and "
          "save_pretrained",
          directory.string(), kSafetensorsFileName, name);
    }
  }
  throw_no_model(directory, fmt::format("weights ({} or {})", kSafetensorsFileName, kSafetensorsIndexName));
}

ModelDirectory open_model_directory(const fs::path& path) {
  check_is_directory(path);
  ModelDirectory model;
  model.path = path;
  model.config = path / kConfigFileName;
  if (!path_exists(model.config)) throw_no_model(path, kConfigFileName);
  model.weights = find_weights(path);
  model.companions = list_companions(path);
  return model;
}

std::vector<fs::path> list_companions(const fs::path& directory) {
  check_is_directory(directory);
  std::vector<fs::path> present;
  for (const std::string_view name : kCompanions) {
    if (is_file(directory / name)) present.push_back(directory / name);
  }
  const fs::path templates = directory / kChatTemplates;
  std::error_code error;
  if (!fs::is_directory(templates, error)) return present;
  for (const std::string& name : list_directory(templates)) {
    if (name.ends_with(".jinja") && is_file(templates / name)) present.push_back(templates / name);
  }
  return present;
}

std::string companion_name(const fs::path& companion) {
  const fs::path folder = companion.parent_path().filename();
  const bool is_template = folder == kChatTemplates && companion.extension() == ".jinja";
  return (is_template ? folder / companion.filename() : companion.filename()).string();
}

bool is_companion(std::string_view name) {
  const fs::path path(name);
  if (path.parent_path() == kChatTemplates) return name.ends_with(".jinja");
  return std::find(kCompanions.begin(), kCompanions.end(), name) != kCompanions.end();
}

bool belongs_to_tokenizer(const fs::path& file) {
  return file.filename() != kGenerationConfigName;
}

}  // namespace shoehorn
