// Hugging Face tokenizers: text -> ids, identical to `tokenizers` for every text.
//
// A tokenizer is a chain of five parts, as in tokenizer.json. Added tokens are searched for before and after
// the normalizer:
//
//   text --added tokens--> stretches --normalizer--> text --added tokens--> --pre-tokenizer--> pieces
//        --model--> tokens --truncation, post-processor--> ids;  ids --decoder--> text
//
// The parts: normalizer.h, pre_tokenizer.h, token_model.h, post_processor.h, decoder.h. The files that they
// are read from: tokenizer_file.h. Special tokens in the text ("[SEP]") become their ids: added_tokens.h. Two
// chains are recognized as a whole and run faster than part by part: BERT's (without copies between the
// parts), and byte-level byte-pair encoding (the model reads bytes directly, without the byte alphabet).
//
// Text that is not valid UTF-8 is read as by Python's bytes.decode(errors="replace"): each maximal subpart of
// an ill-formed sequence becomes one U+FFFD (which clean_text then drops).
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

// The ids of one example, without padding. There is no attention mask, since every position is attended to.
struct Encoding {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;

  bool operator==(const Encoding&) const = default;
};

// An encoding, and the position of each token in its text (the first or the second).
struct EncodingWithOffsets {
  Encoding encoding;
  std::vector<TextRange> offsets;  // 0..0 for tokens that the post-processor added
};

// The unit of offsets: bytes, or code points as in Python's strings. For a text that is not UTF-8 they count
// in the text after the replacement above.
enum class OffsetUnit { kByte, kCharacter };

// The caller owns the texts. An empty second text counts as a second text, as in transformers for a batch
// (for a single example transformers treats an empty pair as none).
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

constexpr int64_t kNoTruncation = INT64_MAX;

// Immutable after loading; all const methods are thread-safe.
class Tokenizer {
 public:
  // UserError: no tokenizer in the directory, a malformed file, or a part of unknown type. SystemError: an
  // unreadable file.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);
  explicit Tokenizer(TokenizerFile file);

  // Encodes with truncation to max_length, which includes the special tokens (they are kept). A single text
  // is cut at its right end, a pair by longest_first as transformers' truncation=True does. UserError if
  // max_length has no room for the special tokens, or if the model has no token for part of the text.
  Encoding encode(std::string_view text, int64_t max_length = kNoTruncation) const;
  Encoding encode(std::string_view text, std::string_view pair, int64_t max_length = kNoTruncation) const;
  // The same with offsets; slower.
  EncodingWithOffsets encode_with_offsets(const TextPair& text, int64_t max_length = kNoTruncation,
                                          OffsetUnit unit = OffsetUnit::kCharacter) const;
  // Encodes in the order of the texts, whatever the number of threads (>= 1). With one thread OpenMP is not
  // used.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, int64_t max_length, int threads) const;

  // Decodes ids to text; leaves special tokens out if `skip_special_tokens`. UserError if an id is not in
  // 0..vocab_size()-1.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  // The number of the model's tokens and the added ones: ids are 0..vocab_size()-1.
  int64_t vocab_size() const { return model_->vocabulary().size() + appended_.size(); }
  // -1 if there is no such token.
  int32_t id_of(std::string_view token) const;
  // UserError if the id is not in 0..vocab_size()-1. The view is valid as long as the tokenizer.
  std::string_view token_of(int64_t id) const;

  // Ids of special tokens; -1 if the vocabulary lacks the token.
  int32_t pad_id() const { return pad_id_; }
  int32_t unk_id() const { return model_->unk_id(); }
  int32_t cls_id() const { return cls_id_; }
  int32_t sep_id() const { return sep_id_; }
  int32_t mask_id() const { return mask_id_; }
  // The token that ends a text; -1 also if the files name none.
  int32_t eos_id() const { return eos_id_; }
  // The longest text in tokens, as the tokenizer's files say; kNoTruncation if they set no limit.
  int64_t model_max_length() const { return model_max_length_; }
  // How many special tokens encode() adds.
  int64_t added_token_count(bool is_pair) const;

  // Size of the vocabulary and its hash tables, which live as long as the tokenizer.
  int64_t table_bytes() const { return model_->table_bytes(); }

 private:
  struct Scratch;
  struct PlacedToken;
  struct DecodedToken {
    std::string text;  // as the decoder gets it
    bool is_special;
  };

  // Assigns ids to added tokens; returns those to search for in the raw (or the normalized) text.
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
  // Each stretch of text[range] between added tokens goes through normalizer and pre-tokenizer to
  // on_pieces(pieces); each added token goes to on_token(id, text, range in it).
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
  // The parts of BERT's chain by their own types; null for other chains.
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
  bool truncates_left_ = false;
  int32_t pad_id_;
  int32_t cls_id_;
  int32_t sep_id_;
  int32_t mask_id_;
  int32_t eos_id_;
};

}  // namespace shoehorn
