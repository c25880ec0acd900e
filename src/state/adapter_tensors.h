// The tensor names in adapter_model.safetensors, as PEFT writes them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

inline constexpr std::string_view kAdapterWeightsName = "adapter_model.safetensors";
inline constexpr std::string_view kAdapterTensorPrefix = "base_model.model.";
inline constexpr std::string_view kLowRankASuffix = ".lora_A.weight";

// The names of an adapter's tensors without PEFT's prefix. UserError if there is no such file, or a name has
// another form.
std::vector<std::string> adapter_tensor_names(const std::filesystem::path& directory);

}  // namespace shoehorn
