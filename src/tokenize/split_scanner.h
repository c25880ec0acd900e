// Hand-written matchers of the split patterns of well-known byte-level tokenizers; a regular expression takes
// ten times as long. Each equals its expression for every text: split_scanner_test.cc compares them.
//
// Character classes are Oniguruma 6.9's \p{L}, \p{N} and \s (unicode.h). (?i:'s) matches U+017F too.
#pragma once

#include <string_view>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

// Appends the pieces of text[whole], valid UTF-8. The pieces are the pattern's matches; together they cover
// the text.
using SplitScanner = void (*)(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);

// GPT-2; also ByteLevel with use_regex:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void scan_gpt2(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
extern const std::string_view kGpt2Expression;

// Llama 3 (up to three digits together) and Qwen (each digit alone):
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void scan_llama3(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
void scan_qwen(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
extern const std::string_view kLlama3Expression;
extern const std::string_view kQwenExpression;

// The scanner for an expression; null if it is none of these.
SplitScanner find_split_scanner(std::string_view expression);

}  // namespace shoehorn
