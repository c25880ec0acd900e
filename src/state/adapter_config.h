// adapter_config.json: which low-rank adapters a directory holds, in PEFT's format (written as PEFT 0.21
// does).
//
// An adapter is a directory with this file and adapter_model.safetensors (state/adapter_weights.h); the base
// model that it goes with is another one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "passes/program_family.h"

namespace shoehorn {

inline constexpr std::string_view kAdapterConfigName = "adapter_config.json";
// The model's config.json, with the names of its classes: an addition of ours. Under that name transformers
// would look for the whole model in the adapter's directory.
inline constexpr std::string_view kAdapterModelConfigName = "model_config.json";

struct AdapterConfig {
  std::string base_model_name_or_path;
  // targets and modules_to_save are those that have tensors in the adapter; PEFT lists others too.
  LoraOptions lora;
};

bool is_adapter_directory(const std::filesystem::path& directory);

// UserError naming file and key: not LoRA, a key that changes the computation in a way that this version
// lacks (use_dora, use_rslora, bias, rank_pattern, …; unknown keys that are set), a malformed value; no
// tensors.
AdapterConfig read_adapter_config(const std::filesystem::path& directory);

// The directory of the base model: as the config names it, from the working directory or from the adapter's
// own. UserError where there is none.
std::filesystem::path base_model_directory(const std::filesystem::path& adapter, const AdapterConfig& config);

// For adapters of a model in `base`, whose path is written as an absolute one.
void write_adapter_config(const std::filesystem::path& directory, const std::filesystem::path& base,
                          const LoraOptions& options, const AdapterSet& adapters);

}  // namespace shoehorn
