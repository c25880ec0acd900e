// Code points as Hugging Face's `tokenizers` sees them.
//
// The base is utf8proc 2.8 (Unicode 15.0). But `tokenizers` asks "is this a control, a mark, a punctuation
// character?" of tables from several versions of Unicode:
//   - categories (control, nonspacing mark, punctuation): the crate `unicode_categories`, about Unicode 8;
//   - canonical decomposition and combining classes: `unicode-normalization-alignments`, about Unicode 9;
//   - lower case, white space and numeric characters: the Rust standard library, Unicode 17;
//   - letters and numbers of regular expressions: Oniguruma, Unicode 16; word characters: the crate `regex`, 16.
// unicode.cc lists every code point for which these differ from utf8proc. The lists come from a comparison of
// all 1,112,064 code points with tokenizers 0.23.3. The golden tests repeat it, with the hashes that
// tests/golden/tokenizer_make.py and tests/golden/chain_make.py write.
//
// All functions are pure and thread-safe and do not throw. A code point is an int32_t in 0..0x10FFFF.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

struct CodePoints {
  std::array<int32_t, 8> values;
  int count;
};

struct LongCodePoints {
  std::array<int32_t, 20> values;
  int count;
};

// Cc, Cf or Co, without tab, line feed and carriage return.
bool is_control(int32_t code_point);
// Unicode White_Space (Rust's char::is_whitespace, and \s of its regex crate).
bool is_whitespace(int32_t code_point);
// ASCII punctuation (which includes $ + < = > ^ ` | ~) or category P*.
bool is_punctuation(int32_t code_point);
// The CJK ideograph blocks that BERT puts spaces around.
bool is_chinese(int32_t code_point);
// Category Mn.
bool is_nonspacing_mark(int32_t code_point);
// \w of Rust's regex crate: Alphabetic, M*, Nd, Pc, Join_Control.
bool is_word_character(int32_t code_point);

// \p{L} and \p{N} of Oniguruma.
bool is_letter(int32_t code_point);
bool is_number(int32_t code_point);
// Category N* (Rust's char::is_numeric).
bool is_numeric(int32_t code_point);
// Category M* as the normalizer StripAccents sees it.
bool is_combining_mark(int32_t code_point);

// Canonical combining class; 0 for a starter.
int canonical_combining_class(int32_t code_point);
// Full canonical decomposition: at most 4 code points; the code point itself if it has none.
CodePoints canonical_decomposition(int32_t code_point);
// Full compatibility decomposition: at most 18 code points; the code point itself if it has none.
LongCodePoints compatibility_decomposition(int32_t code_point);
// The canonical composition of two code points; -1 if there is none.
int32_t canonical_composition(int32_t first, int32_t second);
// True for a starter that composes with some code point before it.
bool is_composing_starter(int32_t code_point);
// Lower case without context (no final sigma), at most 2 code points.
CodePoints lower_case(int32_t code_point);

}  // namespace shoehorn
