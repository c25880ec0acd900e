// Tokens found in the text itself before it is split into words: "[MASK]" and what a user added.
//
// They are matched leftmost first, the longest at a place, without overlap. A match with single_word that
// touches a word character is dropped (its text is not searched again); lstrip and rstrip take the white
// space around into the match. Those with `normalized` are searched, in their normalized form, in the
// normalized text between the others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;  // left out by decode(…, skip_special_tokens)
};

// Immutable and thread-safe.
class AddedTokenMatcher {
 public:
  // A stretch of the text: an added token, or (id -1) text between them.
  struct Stretch {
    size_t begin;
    size_t end;
    int32_t id;
  };

  // The contents must be distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Replaces `stretches` by those of the text, which must be valid UTF-8.
  void split(std::string_view text, std::vector<Stretch>& stretches) const;

 private:
  // The longest token at text[position]; null where there is none.
  const AddedToken* match(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;  // by content
  std::array<bool, 256> starts_{};  // whether a token starts with this byte
  int single_start_ = -1;           // that byte where there is only one
};

}  // namespace shoehorn
