#include "tokenize/word_piece.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenize/json_node.h"

namespace shoehorn {

WordPiece::WordPiece(TokenList tokens, WordPieceOptions options, std::string_view file)
    : TokenModel(Vocabulary(std::move(tokens), file)),
      prefix_(std::move(options.continuing_subword_prefix)),
      prefix_hash_(Vocabulary::extend_hash(Vocabulary::kHashStart, prefix_)),
      max_input_chars_per_word_(options.max_input_chars_per_word),
      unk_id_(vocabulary_.id_of(options.unk_token)) {
  if (unk_id_ < 0)
    throw user_error(
        "[{}] expected the unknown token '{}' in the vocabulary of {} tokens, got none; unknown words need "
        "it",
        file, options.unk_token, vocabulary_.size());
}

void WordPiece::append_pieces(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  // A word's code points are at most its bytes: most words need no count.
  if (static_cast<int64_t>(word.size()) > max_input_chars_per_word_ &&
      count_code_points(word) > max_input_chars_per_word_) {
    ids.push_back(unk_id_);
    return;
  }
  const size_t first = ids.size();
  std::vector<uint64_t>& hashes = scratch.hashes;
  size_t begin = 0;
  while (begin < word.size()) {
    const std::string_view prefix = begin == 0 ? std::string_view() : std::string_view(prefix_);
    size_t length = std::min(word.size() - begin, vocabulary_.max_token_bytes());
    if (hashes.size() <= length) hashes.resize(length + 1);
    uint64_t hash = begin == 0 ? Vocabulary::kHashStart : prefix_hash_;
    for (size_t i = 0; i < length; ++i) hashes[i] = hash = Vocabulary::extend_hash(hash, word[begin + i]);
    int32_t id = -1;
    for (; length > 0; --length) {
      if (begin + length < word.size() && is_utf8_continuation(word[begin + length])) continue;
      id = vocabulary_.find(hashes[length - 1], prefix, word.substr(begin, length));
      if (id >= 0) break;
    }
    if (id < 0) {
      ids.resize(first);
      ids.push_back(unk_id_);
      return;
    }
    ids.push_back(id);
    begin += length;
  }
}

std::unique_ptr<ModelScratch> WordPiece::make_scratch(size_t /*text_bytes*/) const {
  return std::make_unique<Scratch>();
}

void WordPiece::append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                           std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < text.pieces.size() && ids.size() < most_ids; ++i)
    append_pieces(text[i], static_cast<Scratch&>(scratch), ids);
}

void WordPiece::append_tokens(std::string_view piece, ModelScratch& scratch,
                              std::vector<ModelToken>& tokens) const {
  Scratch& own = static_cast<Scratch&>(scratch);
  own.ids.clear();
  append_pieces(piece, own, own.ids);
  if (own.ids.size() == 1) return tokens.push_back({own.ids[0], piece.size()});
  for (size_t i = 0; i < own.ids.size(); ++i) {
    const size_t prefix = i == 0 ? 0 : prefix_.size();
    tokens.push_back({own.ids[i], vocabulary_.token_of(own.ids[i]).size() - prefix});
  }
}

std::unique_ptr<TokenModel> read_word_piece(const JsonNode& node, ModelLists lists) {
  WordPieceOptions options;
  options.unk_token = node["unk_token"].text();
  options.continuing_subword_prefix = node["continuing_subword_prefix"].text();
  options.max_input_chars_per_word = node["max_input_chars_per_word"].integer(0, INT64_MAX);
  return std::make_unique<WordPiece>(std::move(lists.tokens), std::move(options), node.path().string());
}

}  // namespace shoehorn
