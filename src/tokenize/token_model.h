// The model of a tokenizer turns pieces of text into ids of tokens.
//
// It is one of the five kinds of part that tokenizer.json names by `type`. Each model has a file and a row in
// the list of token_model.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenize/aligned_text.h"
#include "tokenize/vocabulary.h"

namespace shoehorn {

class JsonNode;

// A token, and how many bytes of the piece it stands for.
struct ModelToken {
  int32_t id;
  size_t length;
};

// Buffers that belong to one thread.
struct ModelScratch {
  virtual ~ModelScratch() = default;
};

// Immutable and thread-safe once the chain is complete.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The token for text that the vocabulary lacks; -1 if there is none.
  virtual int32_t unk_id() const = 0;
  // Size of all tables.
  virtual int64_t table_bytes() const { return vocabulary_.table_bytes(); }

  // Creates scratch for about `text_bytes` of text.
  virtual std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const = 0;
  // Appends the ids of all pieces. May stop once `ids` has `most_ids`. UserError if a piece has no tokens.
  virtual void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                          std::vector<int32_t>& ids) const = 0;
  // Appends the same tokens for one piece, with their lengths.
  virtual void append_tokens(std::string_view piece, ModelScratch& scratch,
                             std::vector<ModelToken>& tokens) const = 0;

 protected:
  Vocabulary vocabulary_;
};

// The lists in a model's section of tokenizer.json, which are too large for a JSON tree.
struct ModelLists {
  TokenList tokens;  // in order of id
  TokenList merges;  // two per merge, in order of rank
  bool has_merges = false;
};

// The model that model.type names; WordPiece if the key is absent. UserError: an unknown type or a malformed
// section.
std::unique_ptr<TokenModel> read_token_model(const JsonNode& node, ModelLists lists);

}  // namespace shoehorn
