#include "data/utf8.h"

#include <cstring>

namespace shoehorn {
namespace {

struct Sequence {
  size_t bytes;  // at least 1
  bool valid;
};

// The well-formed sequence or the maximal ill-formed stretch at the start of `text`, which is not empty.
Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  // After some lead bytes the second byte's range is narrower; this rules out overlong forms, surrogates and
  // code points above U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

int64_t count_invalid_utf8(std::string_view text) {
  int64_t count = 0;
  for (;;) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return count;
    const Sequence sequence = first_sequence(text);
    count += sequence.valid ? 0 : 1;
    text.remove_prefix(sequence.bytes);
  }
}

void replace_invalid_utf8(std::string& text) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const Sequence sequence = first_sequence(rest);
    result += sequence.valid ? rest.substr(0, sequence.bytes) : "\xef\xbf\xbd";
    rest.remove_prefix(sequence.bytes);
  }
  text = std::move(result);
}

}  // namespace shoehorn
