// Metaspace of Hugging Face's `tokenizers`, as SentencePiece began it: a space is written as a visible
// character, "▁", and a piece begins at each.
//
//   "see the sea"  -->  "▁see" "▁the" "▁sea"
//
// As a decoder it undoes it.
#pragma once

#include "tokenize/decoder.h"
#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

std::unique_ptr<PreTokenizer> read_metaspace_pre_tokenizer(const JsonNode& node);
std::unique_ptr<Decoder> read_metaspace_decoder(const JsonNode& node);

}  // namespace shoehorn
