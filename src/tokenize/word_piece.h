// A WordPiece vocabulary and its greedy longest-match-first algorithm.
//
//   "unaffable" -> "un" "##aff" "##able"
//
// Tokens lie end to end in one string, in order of id. An open-addressed table of (hash, id), at most half
// full, finds them; the hash runs byte by byte, so one walk over a word gives the hashes of all its prefixes.
// A whole word is tried first: in ordinary text nine of ten words are one token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

constexpr int64_t kMostTokens = int64_t{1} << 23;

// Tokens by id: token i is bytes[ends[i - 1], ends[i]). An empty one is never found.
struct TokenList {
  std::string bytes;
  std::vector<uint32_t> ends;

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  std::string_view operator[](int64_t id) const {
    const size_t i = static_cast<size_t>(id);
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  void push_back(std::string_view token) {
    bytes.append(token);
    ends.push_back(static_cast<uint32_t>(bytes.size()));
  }
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;  // in code points; a longer word is unknown
};

// Immutable and thread-safe; the scratch belongs to one thread.
class WordPiece {
 public:
  using Scratch = std::vector<uint64_t>;  // hashes of prefixes

  // `file` names the origin in errors. UserError: more than kMostTokens, a token twice, no unk_token among
  // the tokens.
  WordPiece(TokenList tokens, WordPieceOptions options, std::string_view file);

  // Appends the ids of one word: its pieces, or unk_id() alone.
  void append_pieces(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  // The highest id and one.
  int64_t size() const { return tokens_.size(); }
  // -1 where there is no such token.
  int32_t id_of(std::string_view token) const;
  std::string_view token_of(int64_t id) const { return tokens_[id]; }
  int32_t unk_id() const { return unk_id_; }
  // Bytes of the tokens, their ends and the hash table.
  int64_t table_bytes() const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1: free
  };

  // The id of prefix + piece, whose hash is `hash`; -1 where there is none.
  int32_t find(uint64_t hash, std::string_view prefix, std::string_view piece) const;

  TokenList tokens_;
  std::vector<Slot> slots_;
  uint64_t slot_mask_;
  std::string prefix_;
  uint64_t prefix_hash_;  // state of the hash after the prefix
  int64_t max_input_chars_per_word_;
  size_t max_token_bytes_ = 0;
  int32_t unk_id_;
};

}  // namespace shoehorn
