// Qwen3 (Yang et al., 2025): Llama with a norm of each head's queries and keys, and heads whose size is apart from the
// width.
#include <nlohmann/json.hpp>

#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/decoder_architecture.h"
#include "models/llama.h"
#include "models/qwen_masks.h"

namespace shoehorn {

namespace {

LlamaConfig read_qwen3(const nlohmann::json& source, const std::string& file) {
  LlamaConfig config{.model_type = "qwen3",
                     .class_prefix = "Qwen3",
                     .vocab_size = 151936,
                     .intermediate_size = 22016,
                     .num_key_value_heads = 32,
                     .head_dim = 128,
                     .max_position_embeddings = 32768,
                     .query_key_norm = true};
  read_llama_keys(source, file, 10000, config);
  config.query_key_value_bias = config.output_bias = ConfigReader(source, file).flag("attention_bias", false);
  config.masks = qwen_masks(source, file, config.num_hidden_layers);
  return config;
}

constexpr auto kQwen3Keys =
    llama_keys_and({"attention_bias", "max_window_layers", "sliding_window", "use_sliding_window"});

}  // namespace

constinit const Architecture kQwen3 = decoder_architecture<read_qwen3>("qwen3", kQwen3Keys);

}  // namespace shoehorn
