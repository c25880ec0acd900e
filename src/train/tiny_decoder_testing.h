// For tests of training: a small Llama, texts that it can learn, and how it rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "models/llama.h"
#include "train/rank_runs_testing.h"

namespace shoehorn::test_support {

inline constexpr int64_t kDecoderVocabulary = 61;

inline std::shared_ptr<const DecoderStack> tiny_llama(bool is_tied, float dropout = 0.1F) {
  LlamaConfig config;
  config.vocab_size = kDecoderVocabulary;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 8;
  config.max_position_embeddings = 24;
  config.attention_dropout = dropout;
  config.initializer_range = 0.1F;
  config.tie_word_embeddings = is_tied;
  config.rotary = rotary_from_json(nlohmann::json::object(), {.head_size = 8, .max_positions = 24}, "llama");
  return make_decoder(config);
}

// Counted as those of tiny_bert(): a layer has two norms (24 each), sums for queries, keys and values (24), two products each
// that rotate them, scores (8), attention (24 tokens), its output (24), the gate and its product (24 and 1) and the
// feed-forward's output (40). Behind the layers are a norm (24), the logit (24) and the sum over the vocabulary.
inline constexpr double kTinyLlamaRoundings =
    2 * (2 * 24 + 24 + 2 + 8 + 24 + 24 + 24 + 1 + 40) + 24 + 24 + kDecoderVocabulary;
// Results and matrices of half precision: of a layer 2 norms, queries, keys, values, their rotations, attention, its output,
// gate, up, their product and the feed-forward's output; 7 matrices. Around the layers the table, a norm, the head and its result.
inline constexpr double kTinyLlamaHalfRoundings = 2 * (13 + 7) + 4;
inline constexpr LogitRoundings kTinyLlama = {kTinyLlamaRoundings, kTinyLlamaHalfRoundings};

// Texts of 2 to 20 tokens, so that micro-batches have other numbers of targets. Those that are silent have none.
inline Dataset tiny_texts(int64_t count, uint32_t seed,
                          const std::function<bool(int64_t text)>& is_silent_text = {}) {
  std::mt19937 random(seed);
  Dataset::Rows ids, labels;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t>& row = ids.emplace_back();
    const int64_t length = 2 + static_cast<int64_t>(random()) % 19;
    for (int64_t t = 0; t < length; ++t)
      row.push_back(t % 3 == 2 ? row.back() : static_cast<int64_t>(random()) % kDecoderVocabulary);
    const bool has_targets = !is_silent_text || !is_silent_text(i);
    labels.push_back(has_targets ? row : std::vector<int64_t>(row.size(), -100));
  }
  return Dataset::next_token(Dataset::from_columns({{"input_ids", ids}, {"labels", labels}}));
}

}  // namespace shoehorn::test_support
