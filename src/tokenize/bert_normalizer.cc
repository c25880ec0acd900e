#include "tokenize/bert_normalizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenize/json_node.h"
#include "tokenize/unicode.h"
#include "tokenize/unicode_normalizers.h"

namespace shoehorn {
namespace {

enum class CharacterClass : uint8_t { kWord, kSpace, kPunctuation, kNotAscii };

constexpr std::array<CharacterClass, 256> make_classes() {
  std::array<CharacterClass, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[static_cast<size_t>(c)] = c >= 0x80                          ? CharacterClass::kNotAscii
                                      : space                            ? CharacterClass::kSpace
                                      : (c > ' ' && c < 0x7F && !letter) ? CharacterClass::kPunctuation
                                                                         : CharacterClass::kWord;
  }
  return classes;
}

constexpr std::array<CharacterClass, 256> kClasses = make_classes();

}  // namespace

BertNormalizer::BertNormalizer(BertNormalizerOptions options) : options_(options) {
  for (int c = 0; c < 128; ++c) {
    int result = c;
    if (options.clean_text && (c == 0 || is_control(c)))
      result = kDropped;
    else if (options.clean_text && is_whitespace(c))
      result = ' ';
    else if (options.lowercase && c >= 'A' && c <= 'Z')
      result = c + ('a' - 'A');
    ascii_[static_cast<size_t>(c)] = static_cast<uint8_t>(result);
  }
}

void BertNormalizer::append_normalized(std::string_view text, Scratch& scratch,
                                       std::string& normalized) const {
  scratch.clear();
  size_t position = 0;
  while (position < text.size()) {
    std::array<char, 256> run;
    size_t length = 0;
    const size_t begin = position;
    const size_t end = std::min(text.size(), position + run.size());
    while (position < end && static_cast<uint8_t>(text[position]) < 0x80) {
      const uint8_t result = ascii_[static_cast<uint8_t>(text[position++])];
      run[length] = static_cast<char>(result);
      length += result != kDropped;
    }
    if (length > 0) {
      append_marks(scratch, normalized);
      normalized.append(run.data(), length);
    }
    if (position == begin) append_code_point(decode_utf8(text, position), scratch, normalized);
  }
  append_marks(scratch, normalized);
}

void BertNormalizer::normalize(AlignedText& text) const {
  if (!text.is_aligned()) {
    Scratch marks;
    std::string normalized;
    append_normalized(text.bytes(), marks, normalized);
    return text.assign(normalized, text.begin(), false);
  }
  std::vector<CodePointChange> changes;
  const auto change_each = [&](auto&& append_changes) {
    changes.clear();
    for (size_t position = 0; position < text.bytes().size();)
      append_changes(decode_utf8(text.bytes(), position));
    text.transform(changes);
  };
  if (options_.clean_text) {
    text.drop([](int32_t c) { return c == 0 || c == 0xFFFD || is_control(c); });
    change_each([&](int32_t c) { changes.push_back({is_whitespace(c) ? ' ' : c, 0}); });
  }
  if (options_.handle_chinese_chars) {
    change_each([&](int32_t c) {
      if (is_chinese(c))
        changes.insert(changes.end(), {{' ', 0}, {c, 1}, {' ', 1}});
      else
        changes.push_back({c, 0});
    });
  }
  if (options_.strip_accents) {
    normalize_unicode(text, UnicodeForm::kNfd);
    text.drop(is_nonspacing_mark);
  }
  if (options_.lowercase) change_to_lower_case(text);
}

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonNode& node) {
  BertNormalizerOptions options;
  options.clean_text = node["clean_text"].flag();
  options.handle_chinese_chars = node["handle_chinese_chars"].flag();
  options.lowercase = node["lowercase"].flag();
  options.strip_accents = node.flag_or("strip_accents", options.lowercase);
  return std::make_unique<BertNormalizer>(options);
}

void BertNormalizer::append_code_point(int32_t code_point, Scratch& scratch, std::string& normalized) const {
  if (options_.clean_text) {
    if (code_point == 0xFFFD || is_control(code_point)) return;
    if (is_whitespace(code_point)) code_point = ' ';
  }
  const bool spaced = options_.handle_chinese_chars && is_chinese(code_point);
  if (spaced) {
    append_marks(scratch, normalized);
    normalized.push_back(' ');
  }
  if (options_.strip_accents)
    append_stripped(code_point, scratch, normalized);
  else
    append_lower(code_point, normalized);
  if (spaced) {
    append_marks(scratch, normalized);
    normalized.push_back(' ');
  }
}

void BertNormalizer::append_stripped(int32_t code_point, Scratch& scratch, std::string& normalized) const {
  const CodePoints parts = canonical_decomposition(code_point);
  for (int i = 0; i < parts.count; ++i) {
    const int32_t part = parts.values[static_cast<size_t>(i)];
    const int combining_class = canonical_combining_class(part);
    // A starter ends the run of marks that are put in order, even one that is itself dropped.
    if (combining_class == 0) append_marks(scratch, normalized);
    if (is_nonspacing_mark(part)) continue;
    if (combining_class == 0)
      append_lower(part, normalized);
    else
      scratch.push_back({part, combining_class});
  }
}

void BertNormalizer::append_lower(int32_t code_point, std::string& normalized) const {
  if (!options_.lowercase) return append_utf8(code_point, normalized);
  const CodePoints lower = lower_case(code_point);
  for (int i = 0; i < lower.count; ++i) append_utf8(lower.values[static_cast<size_t>(i)], normalized);
}

void BertNormalizer::append_marks(Scratch& scratch, std::string& normalized) const {
  if (scratch.empty()) return;
  std::ranges::stable_sort(scratch, {}, &Mark::combining_class);
  for (const Mark& mark : scratch) append_lower(mark.code_point, normalized);
  scratch.clear();
}

std::string_view next_word(std::string_view normalized, size_t& position) {
  size_t begin = position;
  size_t end = position;
  while (end < normalized.size()) {
    size_t after = end + 1;
    CharacterClass character = kClasses[static_cast<uint8_t>(normalized[end])];
    if (character == CharacterClass::kNotAscii) {
      after = end;
      const int32_t code_point = decode_utf8(normalized, after);
      character = is_whitespace(code_point)    ? CharacterClass::kSpace
                  : is_punctuation(code_point) ? CharacterClass::kPunctuation
                                               : CharacterClass::kWord;
    }
    if (character == CharacterClass::kWord) {
      end = after;
      continue;
    }
    if (end > begin) break;
    if (character == CharacterClass::kPunctuation) {
      end = after;
      break;
    }
    begin = end = after;
  }
  position = end;
  return normalized.substr(begin, end - begin);
}

}  // namespace shoehorn
