// Metaspace of Hugging Face's `tokenizers`, introduced by SentencePiece: a space is written as the visible
// character "▁", and a piece begins at each.
//
//   "see the sea"  -->  "▁see" "▁the" "▁sea"
//
// The decoder is the inverse.
#pragma once

#include "tokenize/decoder.h"
#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

std::unique_ptr<PreTokenizer> read_metaspace_pre_tokenizer(const JsonNode& node);
std::unique_ptr<Decoder> read_metaspace_decoder(const JsonNode& node);

}  // namespace shoehorn
