#include "models/small_models.h"

#include <nlohmann/json.hpp>

#include "models/registry.h"

namespace shoehorn {

namespace {

using nlohmann::json;

constexpr int64_t kHeadWidth = 64;

}  // namespace

std::unique_ptr<Model> small_encoder(int64_t layers, int64_t width, int64_t vocabulary) {
  const json config = {{"model_type", "bert"},
                       {"vocab_size", vocabulary},
                       {"hidden_size", width},
                       {"num_hidden_layers", layers},
                       {"num_attention_heads", width / kHeadWidth},
                       {"intermediate_size", 4 * width},
                       {"max_position_embeddings", 512}};
  return model_from_json(config, "a small BERT", Head::kSequenceClassification);
}

std::unique_ptr<Model> one_layer_gpt2(int64_t width, int64_t vocabulary) {
  const json config = {{"model_type", "gpt2"}, {"vocab_size", vocabulary},     {"n_embd", width},
                       {"n_layer", 1},         {"n_head", width / kHeadWidth}, {"n_positions", 1024}};
  return model_from_json(config, "one layer of GPT-2", Head::kCausalLanguageModel);
}

std::unique_ptr<Model> one_layer_llama(const LlamaWidths& widths, int64_t vocabulary) {
  const json config = {{"model_type", "llama"},
                       {"vocab_size", vocabulary},
                       {"hidden_size", widths.width},
                       {"num_hidden_layers", 1},
                       {"intermediate_size", widths.feed_forward},
                       {"num_attention_heads", widths.heads},
                       {"num_key_value_heads", widths.key_value_heads},
                       {"max_position_embeddings", 2048},
                       {"tie_word_embeddings", true}};
  return model_from_json(config, "one layer of Llama", Head::kCausalLanguageModel);
}

}  // namespace shoehorn
