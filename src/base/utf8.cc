#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace shoehorn {
namespace {

// Eight at a time: most text is ASCII.
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

Utf8Sequence first_utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  // The second byte's range is narrower after some leads: it rules out overlong forms, surrogates and what is
  // above U+10FFFF.
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

bool is_valid_utf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const Utf8Sequence sequence = first_utf8_sequence(text);
    if (!sequence.is_valid) return false;
    text.remove_prefix(sequence.bytes);
  }
}

int64_t count_invalid_utf8(std::string_view text) {
  int64_t count = 0;
  for (;;) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return count;
    const Utf8Sequence sequence = first_utf8_sequence(text);
    count += sequence.is_valid ? 0 : 1;
    text.remove_prefix(sequence.bytes);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Sequence sequence = first_utf8_sequence(text);
    result += sequence.is_valid ? text.substr(0, sequence.bytes) : "\xef\xbf\xbd";
    text.remove_prefix(sequence.bytes);
  }
  return result;
}

int32_t decode_utf8(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<int32_t>(static_cast<uint8_t>(text[position + i])); };
  const int32_t lead = byte(0);
  int32_t code_point = lead;
  size_t length = 1;
  if (lead >= 0xF0) {
    code_point = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    code_point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0x80) {
    code_point = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  position += length;
  return code_point;
}

void append_utf8(int32_t code_point, std::string& text) {
  const auto later = [code_point](int shift) {
    return static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += {static_cast<char>(0xC0 | code_point >> 6), later(0)};
  } else if (code_point < 0x10000) {
    text += {static_cast<char>(0xE0 | code_point >> 12), later(6), later(0)};
  } else {
    text += {static_cast<char>(0xF0 | code_point >> 18), later(12), later(6), later(0)};
  }
}

int64_t count_code_points(std::string_view text) {
  return static_cast<int64_t>(text.size()) - std::ranges::count_if(text, is_utf8_continuation);
}

size_t begin_of_last_code_point(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && is_utf8_continuation(text[begin])) --begin;
  return begin;
}

}  // namespace shoehorn
