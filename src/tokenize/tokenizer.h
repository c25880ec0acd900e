// Hugging Face's WordPiece tokenizers of BERT-type models: text -> ids, identical to `tokenizers` on every
// text.
//
// Files and what of them is used: tokenizer_file.h. Text: normalizer.h and unicode.h. Words: word_piece.h.
// Special tokens in the text ("[SEP]") become their ids: added_tokens.h.
//
// Text that is not valid UTF-8 is read as Python's bytes.decode(errors="replace") reads it: each maximal
// subpart of an ill-formed sequence is one U+FFFD (which clean_text then drops).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/added_tokens.h"
#include "tokenize/normalizer.h"
#include "tokenize/tokenizer_file.h"
#include "tokenize/word_piece.h"

namespace shoehorn {

// The ids of one example, without padding: every place is attended to, so there is no attention mask.
struct Encoding {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;

  bool operator==(const Encoding&) const = default;
};

// The texts stay the caller's. An empty second text is a second text (as in a batch of transformers; a call
// of it with one example takes an empty pair for none).
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

constexpr int64_t kNoTruncation = INT64_MAX;

// Immutable after load; all const methods may be called from several threads.
class Tokenizer {
 public:
  // UserError: no tokenizer in the directory, a malformed file, an unsupported component. SystemError:
  // unreadable file.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);
  explicit Tokenizer(TokenizerFile file);

  // max_length counts the special tokens, which are kept: a single text is cut at its right end, a pair by
  // longest_first as transformers' truncation=True does. UserError where max_length has no room for the
  // special tokens.
  Encoding encode(std::string_view text, int64_t max_length = kNoTruncation) const;
  Encoding encode(std::string_view text, std::string_view pair, int64_t max_length = kNoTruncation) const;
  // Encodings in the order of the texts, whatever the number of threads (>= 1). One thread does not enter
  // OpenMP.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, int64_t max_length, int threads) const;

  // Tokens of the model and those added to it: ids are 0..vocab_size()-1.
  int64_t vocab_size() const { return word_piece_.size() + appended_.size(); }
  // -1 where there is no such token.
  int32_t id_of(std::string_view token) const;
  // UserError where the id is not in 0..vocab_size()-1. The view lives as long as the tokenizer.
  std::string_view token_of(int64_t id) const;

  // Special tokens; -1 where the vocabulary has none.
  int32_t pad_id() const { return pad_id_; }
  int32_t unk_id() const { return word_piece_.unk_id(); }
  int32_t cls_id() const { return cls_id_; }
  int32_t sep_id() const { return sep_id_; }
  int32_t mask_id() const { return mask_id_; }
  // Tokens that the tokenizer's files allow a text; kNoTruncation where they set no limit.
  int64_t model_max_length() const { return model_max_length_; }
  // Special tokens that encode adds.
  int64_t added_token_count(bool is_pair) const;

  // Bytes of the vocabulary and its hash table, which live as long as the tokenizer.
  int64_t table_bytes() const { return word_piece_.table_bytes(); }

 private:
  struct Scratch;

  // Gives each added token its id and returns those that are searched in the raw (or normalized) text.
  static std::vector<AddedToken> searched_tokens(const std::vector<AddedToken>& tokens, bool normalized);
  void resolve_added_tokens(TokenizerFile& file);
  void check_template(std::vector<TemplatePiece>& pieces, const std::string& file) const;

  Encoding encode_text(const TextPair& text, int64_t max_length, Scratch& scratch) const;
  void append_text(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;
  void append_normalized(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;
  void append_words(std::string_view normalized, Scratch& scratch, std::vector<int32_t>& ids) const;

  Normalizer normalizer_;
  WordPiece word_piece_;
  TokenList appended_;  // added tokens that the model's vocabulary lacks
  std::map<std::string, int32_t, std::less<>> appended_ids_;
  std::unique_ptr<const AddedTokenMatcher> raw_tokens_;
  std::unique_ptr<const AddedTokenMatcher> normalized_tokens_;
  std::vector<TemplatePiece> single_;
  std::vector<TemplatePiece> pair_;
  int64_t model_max_length_;
  int32_t pad_id_;
  int32_t cls_id_;
  int32_t sep_id_;
  int32_t mask_id_;
};

}  // namespace shoehorn
