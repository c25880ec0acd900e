// Pre-tokenizers that look at one character at a time: BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation,
// Digits.
#pragma once

#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

// Removes white space and makes each punctuation character a piece of its own (bert_normalizer.h).
class BertPreTokenizer final : public PreTokenizer {
 public:
  void split(PieceText& text) const override;
};

std::unique_ptr<PreTokenizer> read_bert_pre_tokenizer(const JsonNode& node);
std::unique_ptr<PreTokenizer> read_whitespace(const JsonNode& node);
std::unique_ptr<PreTokenizer> read_whitespace_split(const JsonNode& node);
std::unique_ptr<PreTokenizer> read_punctuation(const JsonNode& node);
std::unique_ptr<PreTokenizer> read_digits(const JsonNode& node);

}  // namespace shoehorn
