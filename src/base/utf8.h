// UTF-8 (RFC 3629). An ill-formed stretch is a maximal subpart of The Unicode Standard 15, section 3.9: decoders
// put one U+FFFD in its place, as Python's bytes.decode(errors="replace") does. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// Whether the byte is a later byte of a code point, and not its first.
constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

struct Utf8Sequence {
  size_t bytes;  // at least 1
  bool is_valid;
};

// The code point or the ill-formed stretch at the start of `text`, which is not empty.
Utf8Sequence first_utf8_sequence(std::string_view text);

bool is_valid_utf8(std::string_view text);
// How many ill-formed stretches there are; 0 for valid UTF-8.
int64_t count_invalid_utf8(std::string_view text);
// With U+FFFD in the place of each ill-formed stretch.
std::string replace_invalid_utf8(std::string_view text);

// The text of the following functions must be valid UTF-8.

// The code point at text[position]; moves `position` past it.
int32_t decode_utf8(std::string_view text, size_t& position);
void append_utf8(int32_t code_point, std::string& text);
int64_t count_code_points(std::string_view text);
// Where the code point begins that ends before text[end]; `end` is not 0.
size_t begin_of_last_code_point(std::string_view text, size_t end);

}  // namespace shoehorn
