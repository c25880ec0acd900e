#include "tokenize/word_piece.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

TokenList list_of(const std::vector<std::string>& tokens) {
  TokenList list;
  for (const std::string& token : tokens) list.push_back(token);
  return list;
}

// The definition: the longest token that starts the rest of the word, or the whole word is unknown.
std::vector<int32_t> naive_pieces(const std::map<std::string, int32_t>& ids, std::u32string word,
                                  const std::string& prefix, size_t max_chars) {
  const auto utf8 = [](std::u32string_view text) {
    std::string result;
    for (char32_t c : text) append_utf8(static_cast<int32_t>(c), result);
    return result;
  };
  if (word.size() > max_chars) return {ids.at("[UNK]")};
  std::vector<int32_t> pieces;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    for (; end > begin; --end) {
      const auto found = ids.find((begin ? prefix : "") + utf8(word.substr(begin, end - begin)));
      if (found == ids.end()) continue;
      pieces.push_back(found->second);
      break;
    }
    if (end == begin) return {ids.at("[UNK]")};
    begin = end;
  }
  return pieces;
}

TEST(WordPiece, EqualsItsDefinition) {
  std::mt19937 random(3);
  const std::u32string alphabet = U"abc\u00E9\u4F60\U0001F600";
  const auto random_word = [&](size_t longest) {
    std::u32string word;
    const size_t length = 1 + random() % longest;
    for (size_t i = 0; i < length; ++i) word += alphabet[random() % alphabet.size()];
    return word;
  };
  const auto utf8 = [](const std::u32string& word) {
    std::string text;
    for (char32_t c : word) append_utf8(static_cast<int32_t>(c), text);
    return text;
  };
  for (const std::string prefix : {"##", "", "@@@", "a"}) {
    for (const size_t token_count : {1u, 5u, 60u, 400u}) {
      std::map<std::string, int32_t> ids = {{"[UNK]", 0}};
      std::vector<std::string> tokens = {"[UNK]"};
      for (size_t i = 0; i < token_count; ++i) {
        const std::string token = (random() % 2 ? prefix : "") + utf8(random_word(4));
        if (ids.emplace(token, static_cast<int32_t>(tokens.size())).second) tokens.push_back(token);
      }
      const WordPiece word_piece(list_of(tokens), {"[UNK]", prefix, 12}, "test");
      WordPiece::Scratch scratch;
      for (int i = 0; i < 2000; ++i) {
        const std::u32string word = random_word(15);
        std::vector<int32_t> pieces;
        word_piece.append_pieces(utf8(word), scratch, pieces);
        ASSERT_EQ(pieces, naive_pieces(ids, word, prefix, 12)) << utf8(word);
      }
      for (const auto& [token, id] : ids) {
        ASSERT_EQ(word_piece.vocabulary().id_of(token), id);
        ASSERT_EQ(word_piece.vocabulary().token_of(id), token);
      }
      EXPECT_EQ(word_piece.vocabulary().id_of("absent"), -1);
    }
  }
}

TEST(WordPiece, CountsCodePointsNotBytes) {
  const WordPiece word_piece(list_of({"[UNK]", "\u00E9", "##\u00E9"}), {"[UNK]", "##", 3}, "test");
  WordPiece::Scratch scratch;
  std::vector<int32_t> ids;
  word_piece.append_pieces("\u00E9\u00E9\u00E9", scratch, ids);
  word_piece.append_pieces("\u00E9\u00E9\u00E9\u00E9", scratch, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 2, 0}));
}

TEST(WordPiece, RefusesBadVocabularies) {
  EXPECT_THROW(WordPiece(list_of({"[UNK]", "a", "a"}), {}, "test"), UserError);
  EXPECT_THROW(WordPiece(list_of({"a"}), {}, "test"), UserError);
  EXPECT_THROW(WordPiece(TokenList(), {}, "test"), UserError);
}

}  // namespace
}  // namespace shoehorn
