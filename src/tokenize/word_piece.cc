#include "tokenize/word_piece.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr uint64_t kHashStart = 0x9E3779B97F4A7C15u;
constexpr uint64_t kHashMultiplier = 0xD6E8FEB86659FD93u;

uint64_t extend_hash(uint64_t hash, char byte) {
  return (hash ^ static_cast<uint8_t>(byte)) * kHashMultiplier;
}

uint64_t extend_hash(uint64_t hash, std::string_view bytes) {
  for (char byte : bytes) hash = extend_hash(hash, byte);
  return hash;
}

// The high bits depend on every byte: they choose the slot, the bits below them are its tag.
uint64_t slot_of(uint64_t hash) {
  return hash >> 40;
}
uint32_t tag_of(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 16);
}

bool is_continuation_byte(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

}  // namespace

WordPiece::WordPiece(TokenList tokens, WordPieceOptions options, std::string_view file)
    : tokens_(std::move(tokens)),
      prefix_(std::move(options.continuing_subword_prefix)),
      prefix_hash_(extend_hash(kHashStart, prefix_)),
      max_input_chars_per_word_(options.max_input_chars_per_word) {
  if (tokens_.size() > kMostTokens)
    throw user_error("[{}] expected at most {} tokens, got {}", file, kMostTokens, tokens_.size());
  const size_t capacity = std::bit_ceil(static_cast<size_t>(tokens_.size()) * 2 + 2);
  slots_.assign(capacity, Slot{0, -1});
  slot_mask_ = capacity - 1;
  for (int64_t id = 0; id < tokens_.size(); ++id) {
    const std::string_view token = tokens_[id];
    if (token.empty()) continue;
    const uint64_t hash = extend_hash(kHashStart, token);
    if (find(hash, "", token) >= 0)
      throw user_error("[{}] expected each token once, got '{}' twice; remove one of the two", file, token);
    uint64_t slot = slot_of(hash) & slot_mask_;
    while (slots_[slot].id >= 0) slot = (slot + 1) & slot_mask_;
    slots_[slot] = {tag_of(hash), static_cast<int32_t>(id)};
    max_token_bytes_ = std::max(max_token_bytes_, token.size());
  }
  unk_id_ = id_of(options.unk_token);
  if (unk_id_ < 0)
    throw user_error(
        "[{}] expected the unknown token '{}' in the vocabulary of {} tokens, got none; unknown words need "
        "it",
        file, options.unk_token, tokens_.size());
}

int32_t WordPiece::find(uint64_t hash, std::string_view prefix, std::string_view piece) const {
  const uint32_t tag = tag_of(hash);
  for (uint64_t i = slot_of(hash) & slot_mask_; slots_[i].id >= 0; i = (i + 1) & slot_mask_) {
    if (slots_[i].hash != tag) continue;
    const std::string_view token = tokens_[slots_[i].id];
    if (token.size() == prefix.size() + piece.size() && token.ends_with(piece) && token.starts_with(prefix))
      return slots_[i].id;
  }
  return -1;
}

int32_t WordPiece::id_of(std::string_view token) const {
  return find(extend_hash(kHashStart, token), "", token);
}

void WordPiece::append_pieces(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  // A word's code points are at most its bytes: most words need no count.
  if (static_cast<int64_t>(word.size()) > max_input_chars_per_word_ &&
      std::ranges::count_if(word, [](char byte) { return !is_continuation_byte(byte); }) >
          max_input_chars_per_word_) {
    ids.push_back(unk_id_);
    return;
  }
  const size_t first = ids.size();
  size_t begin = 0;
  while (begin < word.size()) {
    const std::string_view prefix = begin == 0 ? std::string_view() : std::string_view(prefix_);
    size_t length = std::min(word.size() - begin, max_token_bytes_);
    if (scratch.size() <= length) scratch.resize(length + 1);
    uint64_t hash = begin == 0 ? kHashStart : prefix_hash_;
    for (size_t i = 0; i < length; ++i) scratch[i] = hash = extend_hash(hash, word[begin + i]);
    int32_t id = -1;
    for (; length > 0; --length) {
      if (begin + length < word.size() && is_continuation_byte(word[begin + length])) continue;
      id = find(scratch[length - 1], prefix, word.substr(begin, length));
      if (id >= 0) break;
    }
    if (id < 0) {
      ids.resize(first);
      ids.push_back(unk_id_);
      return;
    }
    ids.push_back(id);
    begin += length;
  }
}

int64_t WordPiece::table_bytes() const {
  return static_cast<int64_t>(tokens_.bytes.capacity() + tokens_.ends.capacity() * sizeof(uint32_t) +
                              slots_.capacity() * sizeof(Slot));
}

}  // namespace shoehorn
