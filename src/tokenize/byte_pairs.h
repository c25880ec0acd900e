// Byte-pair encoding. Neighbouring symbols of a piece are merged pair by pair: the pair of lowest rank first,
// the leftmost of several, until no pair of neighbours is in the list of merges.
//
//   "lower" -> l o w e r -> l o w er -> lo w er -> low er
//
// A symbol is a character, or a byte after read_bytes(). Follows Sennrich et al. 2016 and the model BPE of
// Hugging Face's `tokenizers`.
//
// Time: up to kScannedSymbols symbols are scanned for the lowest rank at each merge; a longer piece keeps its
// pairs in a heap, O(n log n). Pieces of up to 15 bytes and 3 tokens are cached per thread, in at most
// kMaxCacheBytes; a newer piece replaces an older one in the same slot.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tokenize/token_model.h"

namespace shoehorn {

struct BytePairOptions {
  std::optional<std::string> unk_token =
      {};  // for characters that the vocabulary lacks; without it they are dropped
  std::string continuing_subword_prefix = {};  // before each character but a piece's first
  std::string end_of_word_suffix = {};         // behind a piece's last character
  bool fuse_unk = false;                       // consecutive unknown characters are one token
  bool byte_fallback = false;  // an unknown character is the tokens "<0x61>" of its bytes, if all exist
  bool ignore_merges = false;  // a piece that is itself a token is not merged
};

class BytePairs final : public TokenModel {
 public:
  static constexpr size_t kMaxCacheBytes = 1 << 20;
  static constexpr size_t kScannedSymbols = 48;

  // lists.merges has two tokens per merge, in order of rank. `file` is named in errors. UserError: those of
  // Vocabulary, or a merge whose parts or result are not tokens.
  BytePairs(ModelLists lists, BytePairOptions options, std::string_view file);

  int32_t unk_id() const override { return unk_id_; }
  int64_t table_bytes() const override;
  std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const override;
  void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                  std::vector<int32_t>& ids) const override;
  void append_tokens(std::string_view piece, ModelScratch& scratch,
                     std::vector<ModelToken>& tokens) const override;

  // From now on pieces are raw bytes, although the vocabulary is in the byte alphabet (byte_level.h). Token
  // lengths still count the text in the alphabet. Only allowed if can_read_bytes(): no prefix, suffix or
  // fallback of characters.
  void read_bytes();
  bool can_read_bytes() const;

 private:
  struct Scratch;
  struct Merge {
    uint64_t pair;  // left << 32 | right; kFree
    uint32_t rank;
    int32_t id;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // The merge of a pair; its rank is kNoRank if there is none.
  const Merge& find_merge(int32_t left, int32_t right) const;

  void merge_piece(std::string_view piece, Scratch& scratch) const;
  void append_whole_token(std::string_view piece, Scratch& scratch) const;
  void start_bytes(std::string_view piece, Scratch& scratch) const;
  void start_characters(std::string_view piece, Scratch& scratch) const;
  bool append_fallback(std::string_view character, Scratch& scratch) const;
  int32_t required_unk_id() const;
  void merge_by_scan(Scratch& scratch) const;
  void merge_by_heap(Scratch& scratch) const;

  std::string file_;
  BytePairOptions options_;
  int32_t unk_id_ = -1;
  std::vector<Merge> merges_;  // open addressing, at most half full; free ones have kNoRank
  int merge_shift_;            // of the hash, to a slot
  bool reads_bytes_ = false;
  std::array<int32_t, 256>
      byte_ids_;  // the token of a byte: of its character in the alphabet, or "<0x61>"; -1
  std::optional<Vocabulary> byte_tokens_;  // where pieces are bytes and ignore_merges: tokens as bytes
};

std::unique_ptr<TokenModel> read_byte_pairs(const JsonNode& node, ModelLists lists);

}  // namespace shoehorn
