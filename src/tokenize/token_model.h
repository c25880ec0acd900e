// The model of a tokenizer: pieces of text -> ids of tokens.
//
// One of the five kinds of part that tokenizer.json names by `type`. A model is one file and one line of the
// list in token_model.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenize/aligned_text.h"
#include "tokenize/vocabulary.h"

namespace shoehorn {

class JsonNode;

// A token of a piece and how many bytes of the piece it stands for.
struct ModelToken {
  int32_t id;
  size_t length;
};

// Buffers of one thread.
struct ModelScratch {
  virtual ~ModelScratch() = default;
};

// Immutable and thread-safe, once the chain is made.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The token of what the vocabulary lacks; -1 where there is none.
  virtual int32_t unk_id() const = 0;
  // Bytes of all tables.
  virtual int64_t table_bytes() const { return vocabulary_.table_bytes(); }

  // Scratch for about `text_bytes` of text.
  virtual std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const = 0;
  // Appends the ids of every piece. May stop once `ids` has `most_ids`. UserError where a piece has no tokens.
  virtual void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                          std::vector<int32_t>& ids) const = 0;
  // Appends the tokens of one piece, the same ones, with their lengths.
  virtual void append_tokens(std::string_view piece, ModelScratch& scratch,
                             std::vector<ModelToken>& tokens) const = 0;

 protected:
  Vocabulary vocabulary_;
};

// What a model's section of tokenizer.json holds that is too large for a tree of JSON.
struct ModelLists {
  TokenList tokens;  // in order of id
  TokenList merges;  // two for each merge, in order of rank
  bool has_merges = false;
};

// The model that model.type names; WordPiece where the key is absent. UserError: an unknown type, a malformed
// section.
std::unique_ptr<TokenModel> read_token_model(const JsonNode& node, ModelLists lists);

}  // namespace shoehorn
