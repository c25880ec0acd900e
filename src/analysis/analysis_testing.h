// A small BERT, shared by the tests of times and plans: activations are most of its memory, since its weights are few.
#pragma once

#include "models/bert.h"

namespace shoehorn::test_support {

inline BertConfig two_layer_bert() {
  BertConfig config;
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 256;
  return config;
}

}  // namespace shoehorn::test_support
