#include "models/qwen_masks.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/config_keys.h"

namespace shoehorn {

using nlohmann::json;

std::vector<AttentionMask> qwen_masks(const json& config, const std::string& file, int64_t layers) {
  const ConfigReader reader(config, file);
  std::vector<AttentionMask> masks(static_cast<size_t>(layers), AttentionMask::causal());
  const bool has_window = reader.flag("use_sliding_window", false) && !reader.is_null("sliding_window");
  const AttentionMask window = AttentionMask::sliding_window(reader.size("sliding_window", 4096, kMaxRows));
  const json types = config.value("layer_types", json());
  if (types.is_null()) {
    if (!has_window) return masks;
    const int64_t first = reader.count("max_window_layers", 28, kMaxLayers);
    for (int64_t layer = first; layer < layers; ++layer) masks[static_cast<size_t>(layer)] = window;
    return masks;
  }
  if (!types.is_array() || std::ssize(types) != layers) {
    throw user_error("[{}] expected 'layer_types' to have one word for each of {} layers, got {}", file,
                     layers, types.dump());
  }
  for (size_t layer = 0; layer < masks.size(); ++layer) {
    if (types[layer] == "sliding_attention") {
      if (!has_window) {
        throw user_error(
            "[{}] expected 'use_sliding_window' true and a 'sliding_window' with 'layer_types' of sliding_attention, got none",
            file);
      }
      masks[layer] = window;
    } else if (types[layer] != "full_attention") {
      throw user_error("[{}] expected 'layer_types' to be of full_attention and sliding_attention, got {}",
                       file, types[layer].dump());
    }
  }
  return masks;
}

}  // namespace shoehorn
