// The WordLevel model: a vocabulary of whole words. A piece is one token or the unknown token.
#pragma once

#include <string>

#include "tokenize/token_model.h"

namespace shoehorn {

class WordLevel final : public TokenModel {
 public:
  // `file` is named in errors. UserError: those of Vocabulary.
  WordLevel(TokenList tokens, std::string unk_token, std::string_view file);

  int32_t unk_id() const override { return unk_id_; }
  std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const override;
  void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                  std::vector<int32_t>& ids) const override;
  void append_tokens(std::string_view piece, ModelScratch& scratch,
                     std::vector<ModelToken>& tokens) const override;

 private:
  // UserError if neither the piece nor the unknown token is in the vocabulary.
  int32_t id_of_piece(std::string_view piece) const;

  std::string file_;
  std::string unk_token_;
  int32_t unk_id_;
};

std::unique_ptr<TokenModel> read_word_level(const JsonNode& node, ModelLists lists);

}  // namespace shoehorn
