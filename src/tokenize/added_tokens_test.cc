#include "tokenize/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shoehorn {
namespace {

using Stretch = AddedTokenMatcher::Stretch;

// Leftmost first, the longest at a place: every token at every place.
std::vector<Stretch> tried_one_by_one(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::vector<Stretch> stretches;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : tokens) {
      if (text.substr(at).starts_with(token.content) &&
          (longest == nullptr || token.content.size() > longest->content.size()))
        longest = &token;
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    if (begin < at) stretches.push_back({begin, at, -1});
    begin = at + longest->content.size();
    stretches.push_back({at, begin, longest->id});
    at = begin;
  }
  if (begin < text.size()) stretches.push_back({begin, text.size(), -1});
  return stretches;
}

void expect_same(const std::vector<Stretch>& found, const std::vector<Stretch>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].begin, expected[i].begin) << i;
    EXPECT_EQ(found[i].end, expected[i].end) << i;
    EXPECT_EQ(found[i].id, expected[i].id) << i;
  }
}

TEST(AddedTokenMatcher, TheLongestAtThePlaceIsFound) {
  std::mt19937 generator(1);
  // Few letters, one of two bytes, so that most tokens begin as another does.
  const std::vector<std::string> letters = {"a", "b", "ab", "é"};
  const auto random_text = [&](size_t longest) {
    std::string text;
    for (size_t i = 1 + generator() % longest; i > 0; --i) text += letters[generator() % letters.size()];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<AddedToken> tokens;
    for (int32_t id = 0; id < 6; ++id) {
      AddedToken token{.content = random_text(4), .id = id};
      const bool is_known = std::ranges::find(tokens, token.content, &AddedToken::content) != tokens.end();
      if (!is_known) tokens.push_back(std::move(token));
    }
    const AddedTokenMatcher matcher(tokens);
    const std::string text = random_text(40);
    SCOPED_TRACE(text);
    std::vector<Stretch> found;
    matcher.split(text, found);
    expect_same(found, tried_one_by_one(tokens, text));
  }
}

// One look at each token for each place of the text would be 10^10.
TEST(AddedTokenMatcher, ManyTokensCostNoMoreThanTheirDepth) {
  constexpr int32_t kTokens = 100'000;
  std::vector<AddedToken> tokens;
  for (int32_t id = 0; id < kTokens; ++id)
    tokens.push_back({.content = "<" + std::to_string(id) + ">", .id = id});
  const AddedTokenMatcher matcher(std::move(tokens));
  std::string text;
  for (int32_t id = 0; id < kTokens; ++id) text += "<" + std::to_string(id) + "<>";
  std::vector<Stretch> found;
  matcher.split(text, found);
  EXPECT_EQ(found.size(), 1U);
  matcher.split("<7><99999> <100000>", found);
  expect_same(found, {{0, 3, 7}, {3, 10, 99'999}, {10, 19, -1}});
}

}  // namespace
}  // namespace shoehorn
