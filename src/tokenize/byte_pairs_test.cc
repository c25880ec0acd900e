#include "tokenize/byte_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

using Ids = std::vector<int32_t>;

ModelLists lists_of(const std::vector<std::string>& tokens,
                    const std::vector<std::pair<std::string, std::string>>& merges) {
  ModelLists lists;
  lists.has_merges = true;
  for (const std::string& token : tokens) lists.tokens.push_back(token);
  for (const auto& [left, right] : merges) {
    lists.merges.push_back(left);
    lists.merges.push_back(right);
  }
  return lists;
}

// A model of random merges of a few letters.
struct RandomMerges {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
  std::map<std::pair<std::string, std::string>, size_t> ranks;

  RandomMerges(const std::vector<std::string>& letters, size_t count, std::mt19937& random)
      : tokens(letters) {
    std::map<std::string, bool> known;
    for (const std::string& letter : letters) known[letter] = true;
    while (merges.size() < count) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 12 || known.contains(left + right)) continue;
      ranks.emplace(std::pair(left, right), merges.size());
      merges.emplace_back(left, right);
      known[left + right] = true;
      tokens.push_back(left + right);
    }
  }
};

// The definition: again and again the pair of lowest rank, the leftmost of equals.
Ids naive_ids(const RandomMerges& model, const std::vector<std::string>& letters) {
  std::vector<std::string> symbols = letters;
  while (true) {
    size_t best_rank = model.merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = model.ranks.find({symbols[i], symbols[i + 1]});
      if (merge != model.ranks.end() && merge->second < best_rank) {
        best_rank = merge->second;
        best = i;
      }
    }
    if (best_rank == model.merges.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols)
    ids.push_back(static_cast<int32_t>(std::ranges::find(model.tokens, symbol) - model.tokens.begin()));
  return ids;
}

Ids ids_of(const BytePairs& model, std::string_view piece, ModelScratch& scratch) {
  PieceText text;
  text.text.assign(piece, 0, false);
  text.start();
  Ids ids;
  model.append_ids(text, SIZE_MAX, scratch, ids);
  return ids;
}

Ids ids_of(const BytePairs& model, std::string_view piece) {
  return ids_of(model, piece, *model.make_scratch(0));
}

// Pieces on both sides of the length from which on a heap is kept, and in and out of the cache.
TEST(BytePairs, EqualsItsDefinition) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "b", "c", "\u00E9"};
  for (const size_t count : {0u, 3u, 40u, 400u}) {
    const RandomMerges merges(letters, count, random);
    const BytePairs model(lists_of(merges.tokens, merges.merges), {}, "test");
    const auto scratch = model.make_scratch(0);  // a cache of few places, which pieces take from each other
    for (int round = 0; round < 300; ++round) {
      std::vector<std::string> symbols;
      const size_t longest = round % 3 == 0 ? 2 * BytePairs::kScannedSymbols : 10;
      for (size_t i = 1 + random() % longest; i > 0; --i)
        symbols.push_back(letters[random() % letters.size()]);
      std::string piece;
      for (const std::string& symbol : symbols) piece += symbol;
      const Ids expected = naive_ids(merges, symbols);
      ASSERT_EQ(ids_of(model, piece, *scratch), expected) << piece;
      ASSERT_EQ(ids_of(model, piece, *scratch), expected) << "the second time: " << piece;
      std::vector<ModelToken> tokens;
      model.append_tokens(piece, *scratch, tokens);
      ASSERT_EQ(tokens.size(), expected.size());
      for (size_t i = 0; i < tokens.size(); ++i) {
        ASSERT_EQ(tokens[i].id, expected[i]);
        ASSERT_EQ(tokens[i].length, model.vocabulary().token_of(expected[i]).size());
      }
    }
  }
}

// More pieces than the cache has places, so that each takes the place of another that begins with the same eight bytes.
TEST(BytePairs, PiecesThatBeginAlikeHaveTheirOwnTokens) {
  const std::string letters = "bcdefghijk";
  std::vector<std::string> tokens = {"a", "aa", "aaaa", "aaaaaaaa"};
  for (const char letter : letters) tokens.emplace_back(1, letter);
  const BytePairs model(lists_of(tokens, {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}), {}, "test");
  const auto scratch = model.make_scratch(0);
  const auto id_of = [&](char letter) { return static_cast<int32_t>(4 + letters.find(letter)); };
  for (const char first : letters) {
    for (const char second : letters) {
      const std::string piece = std::string("aaaaaaaa") + first + second;
      ASSERT_EQ(ids_of(model, piece, *scratch), (Ids{3, id_of(first), id_of(second)})) << piece;
    }
  }
}

TEST(BytePairs, ReadsBytes) {
  ModelLists lists =
      lists_of({"\u0120", "a", "\u00C3", "\u00A9", "\u0120a", "\u00C3\u00A9", "\u0120a\u00C3\u00A9", "<x y>"},
               {{"\u0120", "a"}, {"\u00C3", "\u00A9"}});
  BytePairs model(lists, {}, "test");
  model.read_bytes();
  EXPECT_EQ(ids_of(model, " a\u00E9"), (Ids{4, 5}));
  EXPECT_EQ(ids_of(model, "a!\u00E9b"), (Ids{1, 5})) << "bytes that the vocabulary lacks are dropped";
  BytePairs whole(lists, {.ignore_merges = true}, "test");
  whole.read_bytes();
  EXPECT_EQ(ids_of(whole, " a\u00E9"), (Ids{6}));
  EXPECT_EQ(ids_of(whole, "<x y>"), Ids{0})
      << "the token has a space, which no text in the byte alphabet has";
  std::vector<ModelToken> tokens;
  model.append_tokens(" a\u00E9", *model.make_scratch(0), tokens);
  EXPECT_EQ(tokens[1].length, 4U) << "in the byte alphabet";
}

TEST(BytePairs, UnknownCharacters) {
  const ModelLists lists = lists_of({"a", "?", "<0x21>"}, {});
  EXPECT_EQ(ids_of(BytePairs(lists, {}, "test"), "axya"), (Ids{0, 0}));
  EXPECT_EQ(ids_of(BytePairs(lists, {.unk_token = "?"}, "test"), "axya"), (Ids{0, 1, 1, 0}));
  EXPECT_EQ(ids_of(BytePairs(lists, {.unk_token = "?", .fuse_unk = true}, "test"), "axya"), (Ids{0, 1, 0}));
  EXPECT_EQ(ids_of(BytePairs(lists, {.unk_token = "?", .byte_fallback = true}, "test"), "a!x"),
            (Ids{0, 2, 1}));
  EXPECT_THROW(ids_of(BytePairs(lists, {.unk_token = "none"}, "test"), "x"), UserError);
}

TEST(BytePairs, PrefixAndSuffix) {
  const ModelLists lists =
      lists_of({"a", "##b", "##c</w>", "a</w>", "ab", "abc</w>"}, {{"a", "##b"}, {"ab", "##c</w>"}});
  const BytePairOptions options = {.continuing_subword_prefix = "##", .end_of_word_suffix = "</w>"};
  const BytePairs model(lists, options, "test");
  EXPECT_EQ(ids_of(model, "abc"), Ids{5});
  EXPECT_EQ(ids_of(model, "a"), Ids{3});
  EXPECT_FALSE(model.can_read_bytes());
}

TEST(BytePairs, RefusesMergesOfNoTokens) {
  EXPECT_THROW(BytePairs(lists_of({"a", "b"}, {{"a", "b"}}), {}, "test"), UserError);
  EXPECT_THROW(BytePairs(lists_of({"a", "ab"}, {{"a", "b"}}), {}, "test"), UserError);
  EXPECT_THROW(BytePairs(lists_of({"a", "ab"}, {{"a", "b"}}), {.continuing_subword_prefix = "##"}, "test"),
               UserError);
}

// One scan for each merge would be 10^11 steps.
TEST(BytePairs, AMegabyteWithoutASpace) {
  std::mt19937 random(6);
  const RandomMerges merges({"a", "b", "c", "d"}, 1000, random);
  const BytePairs model(lists_of(merges.tokens, merges.merges), {}, "test");
  std::string text;
  while (text.size() < 1 << 20) text += static_cast<char>('a' + random() % 4);
  size_t length = 0;
  for (const int32_t id : ids_of(model, text)) length += model.vocabulary().token_of(id).size();
  EXPECT_EQ(length, text.size());
}

}  // namespace
}  // namespace shoehorn
