#include "tokenize/unicode.h"

#include <gtest/gtest.h>

#include <vector>

#include "tokenize/bert_normalizer.h"

namespace shoehorn {
namespace {

TEST(Unicode, ReplacesMaximalSubparts) {
  // Unicode 15, table 3-8 and its neighbours; the right side is what Python gives.
  const std::string r = "\uFFFD";
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("abc\xE2\x82"), "abc" + r);
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Unicode, ValidityAgreesWithReplacement) {
  for (int length = 1; length <= 3; ++length) {
    const int count = length == 1 ? 256 : 20000;
    for (int i = 0; i < count; ++i) {
      std::string text;
      uint32_t seed = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(length);
      if (length == 1) text.push_back(static_cast<char>(i));
      for (int k = 0; length > 1 && k < length * 6; ++k) {
        seed = seed * 1664525u + 1013904223u;
        text.push_back(static_cast<char>(seed >> (k % 2 ? 24 : 25)));
      }
      const std::string replaced = replace_invalid_utf8(text);
      EXPECT_EQ(is_valid_utf8(text), replaced == text);
      EXPECT_TRUE(is_valid_utf8(replaced));
    }
  }
}

TEST(Unicode, EncodesAndDecodesEveryCodePoint) {
  for (int32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    size_t position = 0;
    ASSERT_EQ(decode_utf8(text, position), c);
    ASSERT_EQ(position, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

TEST(Unicode, Classes) {
  EXPECT_TRUE(is_control(0x7F) && is_control(0xAD) && is_control(0x200B) && is_control(0xE000));
  EXPECT_FALSE(is_control('\t') || is_control('\n') || is_control(0x378) || is_control(0x13430));
  EXPECT_TRUE(is_whitespace(0x85) && is_whitespace(0x3000));
  EXPECT_FALSE(is_whitespace(0x200B) || is_whitespace(0x180E));
  EXPECT_TRUE(is_punctuation('$') && is_punctuation('~') && is_punctuation(0x2014) && is_punctuation(0x166D));
  EXPECT_FALSE(is_punctuation('a') || is_punctuation(0xA3) || is_punctuation(0x61D));
  EXPECT_TRUE(is_chinese(0x4E00) && is_chinese(0x2F800));
  EXPECT_FALSE(is_chinese(0x3042) || is_chinese(0xAC00) || is_chinese(0x2B820));
  EXPECT_TRUE(is_nonspacing_mark(0x301) && is_nonspacing_mark(0x1734));
  EXPECT_FALSE(is_nonspacing_mark(0x302E) || is_nonspacing_mark(0x8E0));
  EXPECT_TRUE(is_word_character('_') && is_word_character(0x24B6) && is_word_character(0x200D));
  EXPECT_FALSE(is_word_character('-') || is_word_character(0x2460));
}

std::string normalize(std::string_view text, BertNormalizerOptions options = {}) {
  BertNormalizer::Scratch scratch;
  std::string normalized;
  BertNormalizer(options).append_normalized(text, scratch, normalized);
  return normalized;
}

TEST(Normalizer, Steps) {
  EXPECT_EQ(normalize("H\u00C9LLO\tWo\u200Brld"), "hello world");
  EXPECT_EQ(normalize("a\u4F60b"), "a \u4F60 b");
  EXPECT_EQ(normalize("\u0130"), "i");
  EXPECT_EQ(normalize("\u0130", {true, true, false, true}), "i\u0307");
  EXPECT_EQ(normalize("\u03A3\u0391\u03A3"), "\u03C3\u03B1\u03C3");
  EXPECT_EQ(normalize("\u00C9", {true, true, true, false}), "E");
  EXPECT_EQ(normalize(std::string_view("\0A\x01", 3), {false, false, false, false}),
            std::string_view("\0A\x01", 3));
}

TEST(Normalizer, OrdersMarksThatAreKept) {
  // U+1D165 (class 216) comes before U+302E (224) though it stands behind it; a starter between them keeps
  // them apart.
  EXPECT_EQ(normalize("a\u302E\U0001D165"), "a\U0001D165\u302E");
  EXPECT_EQ(normalize("a\u302E\u0301\U0001D165"), "a\U0001D165\u302E");
  EXPECT_EQ(normalize("a\u302Eb\U0001D165"), "a\u302Eb\U0001D165");
}

TEST(Normalizer, LongRunsAcrossItsChunks) {
  for (size_t length : {255, 256, 257, 512, 1000}) {
    const std::string text = std::string(length, 'A') + "\u00C9" + std::string(length, 'B');
    EXPECT_EQ(normalize(text), std::string(length, 'a') + "e" + std::string(length, 'b'));
  }
}

TEST(Words, SplitsAtSpaceAndPunctuation) {
  std::vector<std::string_view> words;
  const std::string text = "  don't\u2014stop  x\u00A0y. ";
  size_t position = 0;
  for (auto word = next_word(text, position); !word.empty(); word = next_word(text, position))
    words.push_back(word);
  EXPECT_EQ(words, (std::vector<std::string_view>{"don", "'", "t", "\u2014", "stop", "x", "y", "."}));
  EXPECT_EQ(position, text.size());
}

}  // namespace
}  // namespace shoehorn
