// Added tokens ("[MASK]", and tokens that a user added): they are found in the text before it is split into
// words.
//
// Matching is leftmost first, longest first at one position, without overlap. With single_word, a match next
// to a word character is dropped, and its text is not searched again. With lstrip or rstrip, a match includes
// the white space before or behind it. Tokens with `normalized` are searched for in their normalized form, in
// the normalized text between the matches of the other tokens.
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
  bool special = false;  // decode(…, skip_special_tokens) leaves it out
};

// Immutable and thread-safe.
class AddedTokenMatcher {
 public:
  // A part of the text: an added token, or text between added tokens (id -1).
  struct Stretch {
    size_t begin;
    size_t end;
    int32_t id;
  };

  // The contents must be distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Splits `text`, valid UTF-8, into stretches. Replaces the content of `stretches`.
  void split(std::string_view text, std::vector<Stretch>& stretches) const;

 private:
  // The longest token at text[position]; null if there is none.
  const AddedToken* match(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;  // by content
  std::array<bool, 256> starts_{};  // true if a token starts with this byte
  int single_start_ = -1;           // that byte if there is only one, else -1
};

}  // namespace shoehorn
