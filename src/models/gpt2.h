// GPT-2 (Radford et al., 2019), as transformers' GPT2LMHeadModel and GPT2ForSequenceClassification.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/decoder_model.h"

namespace shoehorn {

// The keys of config.json that the computation depends on, with transformers' defaults.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // feed-forward size; 0: 4 · n_embd
  Activation activation_function = Activation::kGeluTanh;
  float resid_pdrop = 0.1F;
  float embd_pdrop = 0.1F;
  float attn_pdrop = 0.1F;
  float layer_norm_epsilon = 1e-5F;
  float initializer_range = 0.02F;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;
  int64_t pad_token_id = -1;  // -1: none
  LabelMap labels = classes(2);

  // UserError naming `file`, the key, what was expected and what was found; also for another architecture.
  static Gpt2Config from_json(const nlohmann::json& json, const std::string& file);
};

std::shared_ptr<const DecoderStack> make_decoder(const Gpt2Config& config);

}  // namespace shoehorn
