#include "tokenize/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace shoehorn {

Vocabulary::Vocabulary(TokenList tokens, std::string_view file) : tokens_(std::move(tokens)) {
  if (tokens_.size() > kMaxTokens)
    throw user_error("[{}] expected at most {} tokens, got {}", file, kMaxTokens, tokens_.size());
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
}

int64_t Vocabulary::table_bytes() const {
  return static_cast<int64_t>(tokens_.bytes.capacity() + tokens_.ends.capacity() * sizeof(uint32_t) +
                              slots_.capacity() * sizeof(Slot));
}

}  // namespace shoehorn
