// The masks of Qwen's layers: layer_types, or use_sliding_window with sliding_window and max_window_layers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/attention_mask.h"

namespace shoehorn {

// One a layer. UserError naming file and key.
std::vector<AttentionMask> qwen_masks(const nlohmann::json& config, const std::string& file, int64_t layers);

}  // namespace shoehorn
