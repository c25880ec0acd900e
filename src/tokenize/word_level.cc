#include "tokenize/word_level.h"

#include "base/error.h"
#include "tokenize/json_node.h"

namespace shoehorn {

WordLevel::WordLevel(TokenList tokens, std::string unk_token, std::string_view file)
    : TokenModel(Vocabulary(std::move(tokens), file)),
      file_(file),
      unk_token_(std::move(unk_token)),
      unk_id_(vocabulary_.id_of(unk_token_)) {}

std::unique_ptr<ModelScratch> WordLevel::make_scratch(size_t /*text_bytes*/) const {
  return std::make_unique<ModelScratch>();
}

int32_t WordLevel::id_of_piece(std::string_view piece) const {
  const int32_t id = vocabulary_.id_of(piece);
  if (id < 0 && unk_id_ < 0)
    throw user_error("[{}] expected the unknown token '{}' in model.vocab, got none; the text needs it",
                     file_, unk_token_);
  return id < 0 ? unk_id_ : id;
}

void WordLevel::append_ids(const PieceText& text, size_t most_ids, ModelScratch& /*scratch*/,
                           std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < text.pieces.size() && ids.size() < most_ids; ++i)
    ids.push_back(id_of_piece(text[i]));
}

void WordLevel::append_tokens(std::string_view piece, ModelScratch& /*scratch*/,
                              std::vector<ModelToken>& tokens) const {
  tokens.push_back({id_of_piece(piece), piece.size()});
}

std::unique_ptr<TokenModel> read_word_level(const JsonNode& node, ModelLists lists) {
  return std::make_unique<WordLevel>(std::move(lists.tokens), node["unk_token"].text(), node.path().string());
}

}  // namespace shoehorn
