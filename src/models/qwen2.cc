// Qwen2 and Qwen2.5 (Yang et al., 2024): Llama with biases of queries, keys and values, and a window in its upper layers
// where the config asks for it.
#include <nlohmann/json.hpp>

#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/decoder_architecture.h"
#include "models/llama.h"
#include "models/qwen_masks.h"

namespace shoehorn {

namespace {

LlamaConfig read_qwen2(const nlohmann::json& source, const std::string& file) {
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

constexpr auto kQwen2Keys = llama_keys_and({"max_window_layers", "sliding_window", "use_sliding_window"});

constexpr NamedShape kQwen2Shapes[] = {{"qwen2-0.5b", R"({
  "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
  "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true})"}};

}  // namespace

constinit const Architecture kQwen2 = decoder_architecture<read_qwen2>("qwen2", kQwen2Keys, kQwen2Shapes);

}  // namespace shoehorn
