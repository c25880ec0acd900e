// adapter_config.json (kAdapterConfigName): the low-rank adapters in a directory, in PEFT's format (as written by PEFT 0.21).
//
// An adapter directory has this file and adapter_model.safetensors (state/adapter_weights.h). Its base model
// is in another directory.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "io/model_directory.h"
#include "passes/program_family.h"

namespace shoehorn {

// The model's config.json, with the names of its classes: our addition. Under the name config.json,
// transformers would look for a whole model in the adapter's directory.
inline constexpr std::string_view kAdapterModelConfigName = "model_config.json";

struct AdapterConfig {
  std::string base_model_name_or_path;
  // targets and modules_to_save are those with tensors in the adapter; PEFT may list more.
  LoraOptions lora;
  // A table that is the base model's head, too, is still both. Otherwise PEFT, which has the key since 0.18, copies the one of the
  // two that modules_to_save names and leaves the other as it was.
  bool ensure_weight_tying = false;
};

bool is_adapter_directory(const std::filesystem::path& directory);

// UserError naming file and key: not LoRA, a key that changes the computation in a way that this version
// lacks (use_dora, use_rslora, bias, rank_pattern, …; unknown keys that are set), a malformed value. Also if
// there are no tensors.
AdapterConfig read_adapter_config(const std::filesystem::path& directory);

// UserError naming ensure_weight_tying where it is not true and the adapter has a module that is one with another in the base model:
// this version has no model in which the two differ. `other_names`: Model::other_names() of the base model.
void check_weight_tying(const std::filesystem::path& directory, const AdapterConfig& config,
                        const std::map<std::string, std::string>& other_names);

// The directory of the base model that the config names, relative to the working directory or to the
// adapter's. UserError if it does not exist.
std::filesystem::path base_model_directory(const std::filesystem::path& adapter, const AdapterConfig& config);

// Writes the config for adapters of the model in `base`, whose path is stored as an absolute one.
void write_adapter_config(const std::filesystem::path& directory, const std::filesystem::path& base,
                          const LoraOptions& options, const AdapterSet& adapters);

}  // namespace shoehorn
