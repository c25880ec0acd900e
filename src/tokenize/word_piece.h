// The WordPiece model: greedy longest match first.
//
//   "unaffable" -> "un" "##aff" "##able"
//
// A whole word is tried first: in ordinary text nine of ten words are one token.
#pragma once

#include <string>

#include "tokenize/token_model.h"

namespace shoehorn {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;  // in code points; a longer word is unknown
};

// Immutable and thread-safe. Each thread needs its own scratch.
class WordPiece final : public TokenModel {
 public:
  // Hashes of a word's prefixes.
  struct Scratch : ModelScratch {
    std::vector<uint64_t> hashes;
    std::vector<int32_t> ids;
  };

  // `file` is named in errors. UserError: those of Vocabulary, or unk_token is not a token.
  WordPiece(TokenList tokens, WordPieceOptions options, std::string_view file);

  // Appends the ids of one word: its subword tokens, or unk_id() alone.
  void append_pieces(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  int32_t unk_id() const override { return unk_id_; }
  std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const override;
  void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                  std::vector<int32_t>& ids) const override;
  void append_tokens(std::string_view piece, ModelScratch& scratch,
                     std::vector<ModelToken>& tokens) const override;

 private:
  std::string prefix_;
  uint64_t prefix_hash_;  // state of the hash after the prefix
  int64_t max_input_chars_per_word_;
  int32_t unk_id_;
};

std::unique_ptr<TokenModel> read_word_piece(const JsonNode& node, ModelLists lists);

}  // namespace shoehorn
