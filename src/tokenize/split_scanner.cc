#include "tokenize/split_scanner.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn {

const std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwenExpression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

enum class CharacterKind : uint8_t { kLetter, kNumber, kSpace, kOther, kNotAscii };

constexpr std::array<CharacterKind, 256> make_kinds() {
  std::array<CharacterKind, 256> kinds{};
  for (int c = 0; c < 256; ++c) {
    const int lower = c | 0x20;
    kinds[static_cast<size_t>(c)] = c >= 0x80                                ? CharacterKind::kNotAscii
                                    : (lower >= 'a' && lower <= 'z')         ? CharacterKind::kLetter
                                    : (c >= '0' && c <= '9')                 ? CharacterKind::kNumber
                                    : (c == ' ' || (c >= '\t' && c <= '\r')) ? CharacterKind::kSpace
                                                                             : CharacterKind::kOther;
  }
  return kinds;
}

constexpr std::array<CharacterKind, 256> kKinds = make_kinds();

CharacterKind kind_of(int32_t code_point) {
  if (is_letter(code_point)) return CharacterKind::kLetter;
  if (is_whitespace(code_point)) return CharacterKind::kSpace;
  return is_number(code_point) ? CharacterKind::kNumber : CharacterKind::kOther;
}

// A place in the text and what stands there.
class Cursor {
 public:
  Cursor(std::string_view text, size_t end) : text_(text), end_(end) {}

  // The kind of the code point at `position`, which is before the end of the text; `after` is the position behind it.
  CharacterKind kind_at(size_t position, size_t& after) const {
    const CharacterKind kind = kKinds[static_cast<uint8_t>(text_[position])];
    after = position + 1;
    if (kind != CharacterKind::kNotAscii) [[likely]]
      return kind;
    after = position;
    return kind_of(decode_utf8(text_, after));
  }
  bool is_kind(size_t position, CharacterKind kind) const {
    size_t after = 0;
    return position < end_ && kind_at(position, after) == kind;
  }
  // Past all of the kind from `position` on.
  size_t skip(size_t position, CharacterKind kind) const {
    size_t after = 0;
    while (position < end_ && kind_at(position, after) == kind) position = after;
    return position;
  }
  bool has(size_t position) const { return position < end_; }
  char byte(size_t position) const { return position < end_ ? text_[position] : '\0'; }

  // The end of \s+(?!\S)|\s+ at `begin`, which is white space, and whose run ends at `run_end`.
  size_t space_end(size_t begin, size_t run_end) const {
    if (run_end == end_) return run_end;
    // One is left for the word behind it, if it is not the only one.
    const size_t last = begin_of_last_code_point(text_, run_end);
    return last > begin ? last : run_end;
  }

 private:
  std::string_view text_;
  size_t end_;
};

char lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
}

// The bytes of 's|'t|'re|'ve|'m|'ll|'d at `position`, where there is an apostrophe; 0 where it is none.
template <bool any_case>
size_t contraction_length(const Cursor& cursor, size_t position) {
  const auto fold = [](char byte) { return any_case ? lower(byte) : byte; };
  const char first = fold(cursor.byte(position + 1));
  const char second = fold(cursor.byte(position + 2));
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return 3;
  // U+017F, the long s.
  if (any_case && first == '\xC5' && second == '\xBF') return 3;
  return 0;
}

size_t end_of_gpt2_match(const Cursor& cursor, size_t begin) {
  const char byte = cursor.byte(begin);
  if (byte == '\'') {
    const size_t length = contraction_length<false>(cursor, begin);
    if (length > 0) return begin + length;
  }
  size_t after = 0;
  CharacterKind kind = cursor.kind_at(begin, after);
  if (kind != CharacterKind::kSpace) return cursor.skip(after, kind);
  if (byte == ' ' && cursor.has(after)) {
    size_t behind = 0;
    kind = cursor.kind_at(after, behind);
    if (kind != CharacterKind::kSpace) return cursor.skip(behind, kind);
  }
  return cursor.space_end(begin, cursor.skip(after, CharacterKind::kSpace));
}

bool is_line_end(char byte) {
  return byte == '\r' || byte == '\n';
}

template <int most_digits>
size_t end_of_llama_match(const Cursor& cursor, size_t begin) {
  const char byte = cursor.byte(begin);
  if (byte == '\'') {
    const size_t length = contraction_length<true>(cursor, begin);
    if (length > 0) return begin + length;
  }
  size_t after = 0;
  const CharacterKind kind = cursor.kind_at(begin, after);
  if (kind == CharacterKind::kLetter) return cursor.skip(after, CharacterKind::kLetter);
  if (kind == CharacterKind::kNumber) {
    for (int digits = 1; digits < most_digits; ++digits) {
      size_t behind = 0;
      if (!cursor.is_kind(after, CharacterKind::kNumber)) break;
      cursor.kind_at(after, behind);
      after = behind;
    }
    return after;
  }
  // One character that is no end of a line goes with the letters behind it.
  if (!is_line_end(byte) && cursor.is_kind(after, CharacterKind::kLetter))
    return cursor.skip(after, CharacterKind::kLetter);
  if (kind == CharacterKind::kOther || (byte == ' ' && cursor.is_kind(after, CharacterKind::kOther))) {
    size_t end = cursor.skip(after, CharacterKind::kOther);
    while (is_line_end(cursor.byte(end))) ++end;
    return end;
  }
  const size_t run_end = cursor.skip(after, CharacterKind::kSpace);
  for (size_t last = run_end; last > begin; --last)
    if (is_line_end(cursor.byte(last - 1))) return last;
  return cursor.space_end(begin, run_end);
}

template <size_t (*end_of_match)(const Cursor&, size_t)>
void scan(std::string_view text, TextRange whole, std::vector<TextRange>& pieces) {
  const Cursor cursor(text, whole.end);
  for (size_t begin = whole.begin; begin < whole.end;) {
    const size_t end = end_of_match(cursor, begin);
    pieces.push_back({begin, end});
    begin = end;
  }
}

}  // namespace

void scan_gpt2(std::string_view text, TextRange whole, std::vector<TextRange>& pieces) {
  scan<end_of_gpt2_match>(text, whole, pieces);
}

void scan_llama3(std::string_view text, TextRange whole, std::vector<TextRange>& pieces) {
  scan<end_of_llama_match<3>>(text, whole, pieces);
}

void scan_qwen(std::string_view text, TextRange whole, std::vector<TextRange>& pieces) {
  scan<end_of_llama_match<1>>(text, whole, pieces);
}

SplitScanner find_split_scanner(std::string_view expression) {
  if (expression == kGpt2Expression) return scan_gpt2;
  if (expression == kLlama3Expression) return scan_llama3;
  if (expression == kQwenExpression) return scan_qwen;
  return nullptr;
}

}  // namespace shoehorn
