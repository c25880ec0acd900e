// Llama (Touvron et al., 2023) and the decoders that differ from it in details: RMSNorm before each part, rotary
// positions, grouped keys and values, a gated feed-forward. As transformers' Llama, Mistral, Qwen2 and Qwen3.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/decoder_model.h"
#include "models/rotary_config.h"

namespace shoehorn {

// The sizes and choices that the computation depends on, with the defaults of transformers' LlamaConfig.
struct LlamaConfig {
  std::string model_type = "llama";
  std::string class_prefix = "Llama";  // of transformers' classes
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;
  int64_t head_dim = 128;
  int64_t max_position_embeddings = 2048;
  Activation hidden_act = Activation::kSilu;
  float initializer_range = 0.02F;
  float rms_norm_eps = 1e-6F;
  float attention_dropout = 0;
  int64_t pad_token_id = -1;  // that ends a sequence for a classifier; -1: none
  int64_t padding_row = -1;   // of the table, which is not trained; -1: none
  bool tie_word_embeddings = false;
  bool query_key_value_bias = false;
  bool output_bias = false;  // of the attention's output
  bool mlp_bias = false;
  bool query_key_norm = false;  // an RMSNorm of each head of queries and keys
  Rotary rotary = {};
  std::vector<AttentionMask> masks = {};  // of each layer; none: causal
};

// Shared by the members of the family: reads what they all have into `config`, which holds the architecture's own
// defaults. num_key_value_heads and head_dim of 0 stand for "as follows from the others". UserError naming `file` and the key.
void read_llama_keys(const nlohmann::json& json, const std::string& file, float theta, LlamaConfig& config);

std::shared_ptr<const DecoderStack> make_decoder(const LlamaConfig& config);

// What all members of the family read.
inline constexpr std::string_view kLlamaKeys[] = {"attention_dropout",
                                                  "head_dim",
                                                  "hidden_act",
                                                  "hidden_size",
                                                  "initializer_range",
                                                  "intermediate_size",
                                                  "max_position_embeddings",
                                                  "num_attention_heads",
                                                  "num_hidden_layers",
                                                  "num_key_value_heads",
                                                  "original_max_position_embeddings",
                                                  "partial_rotary_factor",
                                                  "rms_norm_eps",
                                                  "rope_theta",
                                                  "tie_word_embeddings"};

// The keys of the family and those of one of its members.
template <size_t count>
constexpr auto llama_keys_and(const std::string_view (&own)[count]) {
  std::array<std::string_view, std::size(kLlamaKeys) + count> keys;
  std::copy(std::begin(kLlamaKeys), std::end(kLlamaKeys), keys.begin());
  std::copy(std::begin(own), std::end(own), keys.begin() + std::size(kLlamaKeys));
  return keys;
}

}  // namespace shoehorn
