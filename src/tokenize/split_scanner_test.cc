#include "tokenize/split_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "tokenize/onig_expression.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

using Pieces = std::vector<std::string>;

Pieces scanned(SplitScanner scan, std::string_view text) {
  std::vector<TextRange> ranges;
  scan(text, {0, text.size()}, ranges);
  Pieces pieces;
  for (const TextRange& range : ranges) pieces.emplace_back(text.substr(range.begin, range.size()));
  return pieces;
}

TEST(SplitScanner, Gpt2) {
  EXPECT_EQ(scanned(scan_gpt2, "I'll say  \"hi\" 2024\n\n x"),
            (Pieces{"I", "'ll", " say", " ", " \"", "hi", "\"", " 2024", "\n\n", " x"}));
  EXPECT_EQ(scanned(scan_gpt2, "we'LL  "), (Pieces{"we", "'", "LL", "  "}));
}

TEST(SplitScanner, Llama3AndQwen) {
  EXPECT_EQ(scanned(scan_llama3, "I'LL pay 12345$!\r\n\n  \n x"),
            (Pieces{"I", "'LL", " pay", " ", "123", "45", "$!\r\n\n", "  \n", " x"}));
  EXPECT_EQ(scanned(scan_qwen, "a12'\u017Fb\t(c"), (Pieces{"a", "1", "2", "'\u017F", "b", "\t", "(c"}));
}

// A piece is scanned as if there were no text around it.
TEST(SplitScanner, StaysInItsPiece) {
  std::vector<TextRange> ranges;
  scan_gpt2("ab  cd'll", {1, 8}, ranges);
  EXPECT_EQ(ranges, (std::vector<TextRange>{{1, 2}, {2, 3}, {3, 6}, {6, 7}, {7, 8}}));
}

// Random texts of the characters that the patterns tell apart.
TEST(SplitScanner, EqualsItsExpression) {
  const std::vector<std::string> characters = {
      "a",          "s",          "S",      "t",          "r",
      "e",          "v",          "m",      "l",          "d",
      "\u017F",     "'",          "'",      " ",          " ",
      " ",          "1",          "2",      "9",          "!",
      ".",          "-",          "_",      "\n",         "\r",
      "\t",         "\u00A0",     "\u3000", "\u00E9",     "\u0301",
      "\u4F60",     "\u0661",     "\u00BD", "\U0001F600", "\U000105C0",
      "\U00031350", "\U00011DE3", "\u180E", "\u0085",     std::string(1, '\0')};
  std::mt19937 random(9);
  for (const std::string_view expression : {kGpt2Expression, kLlama3Expression, kQwenExpression}) {
    const SplitScanner scan = find_split_scanner(expression);
    ASSERT_NE(scan, nullptr);
    const OnigExpression matched(std::string(expression), "test");
    for (int round = 0; round < 20'000; ++round) {
      std::string text;
      for (size_t i = random() % 24; i > 0; --i) text += characters[random() % characters.size()];
      std::vector<TextRange> by_hand;
      std::vector<TextRange> by_library;
      scan(text, {0, text.size()}, by_hand);
      matched.find(text, {0, text.size()}, by_library);
      ASSERT_EQ(by_hand, by_library) << expression << "\n" << testing::PrintToString(text);
    }
  }
  EXPECT_EQ(find_split_scanner(R"(\s+)"), nullptr);
}

}  // namespace
}  // namespace shoehorn
