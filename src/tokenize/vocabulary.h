// The vocabulary of a model: token texts by id, and ids by text.
//
// The tokens lie end to end in one string, in order of id. A hash table with open addressing, at most half
// full, maps texts to ids. The hash is extended byte by byte, so one walk over a word yields the hashes of
// all its prefixes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

constexpr int64_t kMaxTokens = int64_t{1} << 23;

// Token i is bytes[ends[i - 1], ends[i]). An empty token is never found.
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

// Immutable and thread-safe.
class Vocabulary {
 public:
  static constexpr uint64_t kHashStart = 0x9E3779B97F4A7C15u;
  static uint64_t extend_hash(uint64_t hash, char byte) {
    return (hash ^ static_cast<uint8_t>(byte)) * 0xD6E8FEB86659FD93u;
  }
  static uint64_t extend_hash(uint64_t hash, std::string_view bytes) {
    for (char byte : bytes) hash = extend_hash(hash, byte);
    return hash;
  }

  // `file` is named in errors. UserError: more than kMaxTokens tokens, or a duplicate.
  Vocabulary(TokenList tokens, std::string_view file);

  // The highest id plus one.
  int64_t size() const { return tokens_.size(); }
  std::string_view token_of(int64_t id) const { return tokens_[id]; }
  // -1 if there is no such token.
  int32_t id_of(std::string_view token) const { return find(extend_hash(kHashStart, token), "", token); }
  // The id of prefix + piece, whose hash is `hash`; -1 if there is no such token.
  int32_t find(uint64_t hash, std::string_view prefix, std::string_view piece) const {
    const uint32_t tag = tag_of(hash);
    for (uint64_t i = slot_of(hash) & slot_mask_; slots_[i].id >= 0; i = (i + 1) & slot_mask_) {
      if (slots_[i].hash != tag) continue;
      const std::string_view token = tokens_[slots_[i].id];
      if (token.size() == prefix.size() + piece.size() && token.ends_with(piece) && token.starts_with(prefix))
        return slots_[i].id;
    }
    return -1;
  }
  size_t max_token_bytes() const { return max_token_bytes_; }
  // Size of the tokens, their ends and the hash table.
  int64_t table_bytes() const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1: free
  };

  // The high bits depend on every byte. The highest choose the slot, those below are the slot's tag.
  static uint64_t slot_of(uint64_t hash) { return hash >> 40; }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 16); }

  TokenList tokens_;
  std::vector<Slot> slots_;
  uint64_t slot_mask_;
  size_t max_token_bytes_ = 0;
};

}  // namespace shoehorn
