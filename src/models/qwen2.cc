// Qwen2 and Qwen2.5 (Yang et al., 2024): Llama with biases of queries, keys and values, and a window in its upper layers
// where the config asks for it.
#include <nlohmann/json.hpp>

#include "models/config_keys.h"
#include "models/llama.h"
#include "models/qwen_masks.h"

namespace shoehorn {

LlamaConfig qwen2_from_json(const nlohmann::json& source, const std::string& file) {
  LlamaConfig config{.model_type = "qwen2",
                     .class_prefix = "Qwen2",
                     .vocab_size = 151936,
                     .intermediate_size = 22016,
                     .num_key_value_heads = 32,
                     .head_dim = 0,
                     .max_position_embeddings = 32768,
                     .query_key_value_bias = true};
  read_llama_keys(source, file, 10000, config);
  config.masks = qwen_masks(source, file, config.num_hidden_layers);
  return config;
}

}  // namespace shoehorn
