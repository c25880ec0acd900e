// Mistral (Jiang et al., 2023): Llama with a window of attention.
#include <nlohmann/json.hpp>

#include "models/config_keys.h"
#include "models/llama.h"

namespace shoehorn {

LlamaConfig mistral_from_json(const nlohmann::json& source, const std::string& file) {
  LlamaConfig config{.model_type = "mistral",
                     .class_prefix = "Mistral",
                     .intermediate_size = 14336,
                     .num_key_value_heads = 8,
                     .head_dim = 0,
                     .max_position_embeddings = 4096 * 32};
  read_llama_keys(source, file, 10000, config);
  const ConfigReader reader(source, file);
  // null: no window.
  const int64_t window = reader.has("sliding_window") ? reader.size("sliding_window", 0, kMaxRows) : 4096;
  if (window > 0) {
    config.masks.assign(static_cast<size_t>(config.num_hidden_layers), AttentionMask::sliding_window(window));
  }
  return config;
}

}  // namespace shoehorn
