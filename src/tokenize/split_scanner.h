// The split patterns of the well-known families of byte-level tokenizers, matched by hand: a regular expression
// takes ten times as long. Each equals its expression on every text; split_scanner_test.cc compares them.
//
// Their characters: \p{L}, \p{N} and \s of Oniguruma 6.9 (unicode.h). (?i:'s) matches U+017F too.
#pragma once

#include <string_view>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

// Appends the pieces of text[whole], which are the matches of the pattern: they cover it without a gap. The text
// must be valid UTF-8.
using SplitScanner = void (*)(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);

// GPT-2, and ByteLevel with use_regex:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void scan_gpt2(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
extern const std::string_view kGpt2Expression;

// Llama 3 (digits up to three together) and Qwen (each digit alone):
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void scan_llama3(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
void scan_qwen(std::string_view text, TextRange whole, std::vector<TextRange>& pieces);
extern const std::string_view kLlama3Expression;
extern const std::string_view kQwenExpression;

// The scanner of an expression; null where it is none of these.
SplitScanner find_split_scanner(std::string_view expression);

}  // namespace shoehorn
