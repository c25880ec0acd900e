#include "cli/growing_text.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

// What is shown behind each token of a vocabulary, and behind finish().
std::vector<std::string> shown_pieces(const std::vector<std::string>& vocabulary,
                                      const std::function<std::string(std::string)>& clean_up = {}) {
  std::vector<std::string> pieces;
  GrowingText growing(
      [&](std::span<const int32_t> tokens) {
        std::string text;
        for (const int32_t token : tokens) text += vocabulary[static_cast<size_t>(token)];
        return clean_up ? clean_up(text) : text;
      },
      [&](const std::string& piece) { pieces.back() += piece; });
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    pieces.emplace_back();
    growing.add(static_cast<int32_t>(i));
  }
  pieces.emplace_back();
  growing.finish();
  return pieces;
}

TEST(GrowingText, AWordIsShownWhenTheNextOneBegins) {
  EXPECT_EQ(shown_pieces({" the", " c", "at", " sat", "\n", "on"}),
            (std::vector<std::string>{"", " the", "", " cat", " sat", "", "\non"}));
  EXPECT_EQ(shown_pieces({}), std::vector<std::string>{""});
}

// The first bytes of a character are decoded as U+FFFD until the last one is there.
TEST(GrowingText, HalfACharacterIsNotShown) {
  const auto whole_or_replaced = [](std::string text) {
    return text.ends_with("\xC3") ? text.substr(0, text.size() - 1) + "\xEF\xBF\xBD" : text;
  };
  EXPECT_EQ(shown_pieces({"caf", "\xC3", "\xA9", " noir"}, whole_or_replaced),
            (std::vector<std::string>{"", "", "", "caf\xC3\xA9", " noir"}));
}

TEST(GrowingText, WhatADecoderTakesBackIsShownAnew) {
  const auto upper_end = [](std::string text) { return text.size() > 6 ? "A" + text.substr(1) : text; };
  EXPECT_EQ(shown_pieces({"a ", "b ", "c ", "d "}, upper_end),
            (std::vector<std::string>{"a", " b", " c", "", "\nA b c d "}));
}

}  // namespace
}  // namespace shoehorn
