// Hugging Face's tokenizers: text -> ids, identical to `tokenizers` on every text.
//
// A tokenizer is a chain of five parts, as tokenizer.json has them, with added tokens around the first:
//
//   text --added tokens--> stretches --normalizer--> text --added tokens--> --pre-tokenizer--> pieces
//        --model--> tokens --truncation, post-processor--> ids;  ids --decoder--> text
//
// The parts of each kind: normalizer.h, pre_tokenizer.h, token_model.h, post_processor.h, decoder.h. Files and what of
// them is used: tokenizer_file.h. Special tokens in the text ("[SEP]") become their ids: added_tokens.h. Two chains
// are known as a whole, and run faster than part by part: BERT's (no copy between its parts) and byte-level ones with
// byte-pair encoding (bytes go to the model without being written in the byte alphabet).
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
#include "tokenize/tokenizer_file.h"

namespace shoehorn {

class BertNormalizer;
class WordPiece;

// The ids of one example, without padding: every place is attended to, so there is no attention mask.
struct Encoding {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;

  bool operator==(const Encoding&) const = default;
};

// An encoding and where its tokens stand in their text, first or second.
struct EncodingWithOffsets {
  Encoding encoding;
  std::vector<TextRange> offsets;  // 0..0 for tokens of the post-processor
};

// What offsets count: bytes, or code points of the text as Python's strings have them. In a text that is not UTF-8
// they count in what it is read as.
enum class OffsetUnit { kByte, kCharacter };

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
  // UserError: no tokenizer in the directory, a malformed file, a part of an unknown type. SystemError: unreadable
  // file.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);
  explicit Tokenizer(TokenizerFile file);

  // max_length counts the special tokens, which are kept: a single text is cut at its right end, a pair by
  // longest_first as transformers' truncation=True does. UserError where max_length has no room for the
  // special tokens, or the text has what the model has no token for.
  Encoding encode(std::string_view text, int64_t max_length = kNoTruncation) const;
  Encoding encode(std::string_view text, std::string_view pair, int64_t max_length = kNoTruncation) const;
  // The same with offsets, which take longer.
  EncodingWithOffsets encode_with_offsets(const TextPair& text, int64_t max_length = kNoTruncation,
                                          OffsetUnit unit = OffsetUnit::kCharacter) const;
  // Encodings in the order of the texts, whatever the number of threads (>= 1). One thread does not enter
  // OpenMP.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, int64_t max_length, int threads) const;

  // The text of ids, by the decoder. Those of special tokens are left out if `skip_special_tokens`. UserError where an
  // id is not in 0..vocab_size()-1.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  // Tokens of the model and those added to it: ids are 0..vocab_size()-1.
  int64_t vocab_size() const { return model_->vocabulary().size() + appended_.size(); }
  // -1 where there is no such token.
  int32_t id_of(std::string_view token) const;
  // UserError where the id is not in 0..vocab_size()-1. The view lives as long as the tokenizer.
  std::string_view token_of(int64_t id) const;

  // Special tokens; -1 where the vocabulary has none.
  int32_t pad_id() const { return pad_id_; }
  int32_t unk_id() const { return model_->unk_id(); }
  int32_t cls_id() const { return cls_id_; }
  int32_t sep_id() const { return sep_id_; }
  int32_t mask_id() const { return mask_id_; }
  // Tokens that the tokenizer's files allow a text; kNoTruncation where they set no limit.
  int64_t model_max_length() const { return model_max_length_; }
  // Special tokens that encode adds.
  int64_t added_token_count(bool is_pair) const;

  // Bytes of the vocabulary and its hash tables, which live as long as the tokenizer.
  int64_t table_bytes() const { return model_->table_bytes(); }

 private:
  struct Scratch;
  struct PlacedToken;
  struct DecodedToken {
    std::string text;  // as the decoder gets it
    bool is_special;
  };

  // Gives each added token its id and returns those that are searched in the raw (or normalized) text.
  static std::vector<AddedToken> searched_tokens(const std::vector<AddedToken>& tokens, bool normalized);
  void recognise_chain();
  void resolve_added_tokens(TokenizerFile& file);
  std::string normalized_text(const std::string& text) const;
  void check_template(std::vector<TemplatePiece>& pieces, const std::string& file) const;
  void check_max_length(bool is_pair, int64_t max_length) const;
  std::unique_ptr<Scratch> make_scratch(size_t text_bytes) const;

  Encoding encode_text(const TextPair& text, int64_t max_length, Scratch& scratch) const;
  void append_text(std::string_view text, size_t most_ids, Scratch& scratch, std::vector<int32_t>& ids) const;
  void append_normalized(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;
  void append_words(std::string_view normalized, Scratch& scratch, std::vector<int32_t>& ids) const;
  // Each stretch of text[range] between added tokens goes through normalizer and pre-tokenizer, then to
  // on_pieces(pieces); each added token to on_token(id, text, range in it).
  template <typename OnPieces, typename OnToken>
  void walk_chain(std::string_view text, TextRange range, bool aligned, Scratch& scratch,
                  OnPieces&& on_pieces, OnToken&& on_token) const;
  std::vector<PlacedToken> placed_tokens(std::string_view text, Scratch& scratch) const;
  void append_placed(const PieceText& pieces, Scratch& scratch, std::vector<PlacedToken>& tokens) const;
  void trim_offsets(std::vector<PlacedToken>& tokens) const;

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<TokenModel> model_;
  PostProcessor post_processor_;
  std::unique_ptr<Decoder> decoder_;
  // The chain of BERT: its parts by their own types; null in another chain.
  const BertNormalizer* bert_normalizer_ = nullptr;
  const WordPiece* word_piece_ = nullptr;
  bool reads_bytes_ =
      false;  // the pieces are bytes, which the model knows as characters of the byte alphabet
  bool needs_alignment_ = false;  // the pre-tokenizer asks for it
  TokenList appended_;            // added tokens that the model's vocabulary lacks
  std::map<std::string, int32_t, std::less<>> appended_ids_;
  std::map<int32_t, DecodedToken> added_;  // all added tokens, by id
  std::unique_ptr<const AddedTokenMatcher> raw_tokens_;
  std::unique_ptr<const AddedTokenMatcher> normalized_tokens_;
  int64_t model_max_length_;
  int32_t pad_id_;
  int32_t cls_id_;
  int32_t sep_id_;
  int32_t mask_id_;
};

}  // namespace shoehorn
