// Byte-pair encoding: the symbols of a piece are merged pair by pair, the pair of lowest rank first, the leftmost of
// equals, until no pair of neighbours is in the list of merges.
//
//   "lower" -> l o w e r -> l o w er -> lo w er -> low er
//
// A symbol is a character; in a model that reads bytes (read_bytes) a byte. Sennrich et al. 2016, as the model BPE of
// Hugging Face's `tokenizers` does it.
//
// Time: a piece of up to kScannedSymbols symbols is scanned for its lowest rank at each merge; a longer one keeps its
// pairs in a heap, O(n log n). A piece of up to 15 bytes and 3 tokens is remembered in a cache of the thread, of up to
// kMostCacheBytes, in which a newer piece takes the place of an older one with the same hash.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tokenize/token_model.h"

namespace shoehorn {

struct BytePairOptions {
  std::optional<std::string> unk_token =
      {};  // for characters that the vocabulary lacks; without it they are dropped
  std::string continuing_subword_prefix = {};  // before each character but the first of a piece
  std::string end_of_word_suffix = {};         // behind the last character of a piece
  bool fuse_unk = false;                       // unknown characters in a row are one token
  bool byte_fallback = false;  // an unknown character is the tokens "<0x61>" of its bytes, if all exist
  bool ignore_merges = false;  // a piece that is a token is that token
};

class BytePairs final : public TokenModel {
 public:
  static constexpr size_t kMostCacheBytes = 1 << 20;
  static constexpr size_t kScannedSymbols = 48;

  // lists.merges: two tokens for each merge, in order of rank. `file` names the origin in errors. UserError: those of
  // Vocabulary, a merge of or into what is no token.
  BytePairs(ModelLists lists, BytePairOptions options, std::string_view file);

  int32_t unk_id() const override { return unk_id_; }
  int64_t table_bytes() const override;
  std::unique_ptr<ModelScratch> make_scratch(size_t text_bytes) const override;
  void append_ids(const PieceText& text, size_t most_ids, ModelScratch& scratch,
                  std::vector<int32_t>& ids) const override;
  void append_tokens(std::string_view piece, ModelScratch& scratch,
                     std::vector<ModelToken>& tokens) const override;

  // From now on pieces are bytes, though the vocabulary is written in the byte alphabet (byte_level.h); lengths are
  // still those of the text in the alphabet. Not where characters have a prefix, a suffix or a fallback of their own.
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
  // The merge of a pair, or one of kNoRank.
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
