// Mistral (Jiang et al., 2023): Llama with a window of attention.
#include <nlohmann/json.hpp>

#include "models/architecture_list.h"
#include "models/config_keys.h"
#include "models/decoder_architecture.h"
#include "models/llama.h"

namespace shoehorn {

namespace {

LlamaConfig read_mistral(const nlohmann::json& source, const std::string& file) {
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

constexpr auto kMistralKeys = llama_keys_and({"sliding_window"});

}  // namespace

constinit const Architecture kMistral = decoder_architecture<read_mistral>("mistral", kMistralKeys);

}  // namespace shoehorn
