// Llama (Touvron et al., 2023) and the decoders that differ from it in details: RMSNorm before each part, rotary
// positions, grouped keys and values, a gated feed-forward. As transformers' Llama, Mistral, Qwen2 and Qwen3.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/decoder_model.h"

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
  int64_t pad_token_id = -1;  // -1: none
  bool tie_word_embeddings = false;
  bool query_key_value_bias = false;
  bool output_bias = false;  // of the attention's output
  bool mlp_bias = false;
  bool query_key_norm = false;  // an RMSNorm of each head of queries and keys
  RotaryFrequencies rotary = {};
  std::vector<AttentionMask> masks = {};  // of each layer; none: causal
};

// Shared by the members of the family: reads what they all have into `config`, which holds the architecture's own
// defaults. num_key_value_heads and head_dim of 0 stand for "as follows from the others". UserError naming `file` and the key.
void read_llama_keys(const nlohmann::json& json, const std::string& file, float theta, LlamaConfig& config);

std::shared_ptr<const DecoderStack> make_decoder(const LlamaConfig& config);

// UserError naming `file`, the key, what was expected and what was found.
LlamaConfig llama_from_json(const nlohmann::json& json, const std::string& file);
LlamaConfig mistral_from_json(const nlohmann::json& json, const std::string& file);
LlamaConfig qwen2_from_json(const nlohmann::json& json, const std::string& file);
LlamaConfig qwen3_from_json(const nlohmann::json& json, const std::string& file);

}  // namespace shoehorn
