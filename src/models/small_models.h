// Models of few layers, by their widths: they have the operations of an architecture and take little time and memory, for
// measuring what those operations cost. Heads are 64 wide.
#pragma once

#include <cstdint>
#include <memory>

#include "model/model.h"

namespace shoehorn {

// BERT with a classifier. Behind the attention of the last layer only the classifier's token of each text is computed: a layer before
// it has products of all tokens.
std::unique_ptr<Model> small_encoder(int64_t layers, int64_t width, int64_t vocabulary);

// GPT-2 and Llama of one layer, language models.
std::unique_ptr<Model> one_layer_gpt2(int64_t width, int64_t vocabulary);

struct LlamaWidths {
  int64_t width = 0;
  int64_t feed_forward = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
};
std::unique_ptr<Model> one_layer_llama(const LlamaWidths& widths, int64_t vocabulary);

}  // namespace shoehorn
