#include "tokenize/unicode.h"

#include <gtest/gtest.h>

#include <vector>

#include "tokenize/bert_normalizer.h"

namespace shoehorn {
namespace {

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
