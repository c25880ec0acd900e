#include "tokenize/unicode_normalizers.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// A code point of a decomposed text.
struct Part {
  CodePointChange change;
  int combining_class;
};

// Whether the code point stays as it is in the form, whatever stands before it.
bool is_stable(int32_t code_point, UnicodeForm form) {
  const bool is_compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  // No code point of Latin-1 composes with the one before, and those that decompose compose again.
  if (code_point < (form == UnicodeForm::kNfc ? 0x300 : is_compatible ? 0xA0 : 0xC0)) return true;
  if (canonical_combining_class(code_point) != 0 || is_composing_starter(code_point)) return false;
  if (is_compatible) return compatibility_decomposition(code_point).values[0] == code_point;
  const CodePoints parts = canonical_decomposition(code_point);
  int32_t composite = parts.values[0];
  if (form == UnicodeForm::kNfc) {
    for (size_t i = 1; i < static_cast<size_t>(parts.count); ++i)
      composite = canonical_composition(composite, parts.values[i]);
  }
  return composite == code_point;
}

bool is_in_form(std::string_view text, UnicodeForm form) {
  for (size_t position = 0; position < text.size();) {
    if (static_cast<uint8_t>(text[position]) < 0x80)
      ++position;
    else if (!is_stable(decode_utf8(text, position), form))
      return false;
  }
  return true;
}

std::vector<Part> decompose(std::string_view text, bool is_compatible) {
  std::vector<Part> parts;
  parts.reserve(text.size());
  const auto append = [&](const auto& decomposition) {
    for (size_t i = 0; i < static_cast<size_t>(decomposition.count); ++i) {
      const int32_t code_point = decomposition.values[i];
      parts.push_back({{code_point, i == 0 ? 0 : 1}, canonical_combining_class(code_point)});
    }
  };
  for (size_t position = 0; position < text.size();) {
    const int32_t code_point = decode_utf8(text, position);
    if (is_compatible)
      append(compatibility_decomposition(code_point));
    else
      append(canonical_decomposition(code_point));
  }
  // The canonical order of the marks between two starters.
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto is_starter = [](const Part& part) { return part.combining_class == 0; };
    begin = std::find_if_not(begin, parts.end(), is_starter);
    const auto end = std::find_if(begin, parts.end(), is_starter);
    std::stable_sort(begin, end,
                     [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
  return parts;
}

std::vector<CodePointChange> compose(const std::vector<Part>& parts) {
  std::vector<CodePointChange> composed;
  composed.reserve(parts.size());
  std::optional<CodePointChange> starter;
  std::vector<CodePointChange> marks;  // after the starter, which does not compose with them
  int last_class = -1;                 // of the marks
  const auto flush = [&] {
    if (starter) composed.push_back(*starter);
    composed.insert(composed.end(), marks.begin(), marks.end());
    marks.clear();
    last_class = -1;
  };
  for (const auto& [change, combining_class] : parts) {
    if (!starter && combining_class != 0) {
      composed.push_back(change);
      continue;
    }
    // A mark of the same class or a higher one blocks what follows it.
    if (starter && last_class < combining_class) {
      const int32_t composite = canonical_composition(starter->code_point, change.code_point);
      if (composite >= 0) {
        starter = {composite, starter->kind + change.kind - 1};
        continue;
      }
    }
    if (starter && combining_class != 0) {
      marks.push_back(change);
      last_class = combining_class;
      continue;
    }
    flush();
    starter = change;
  }
  flush();
  return composed;
}

template <UnicodeForm form>
class UnicodeNormalizer final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override { normalize_unicode(text, form); }
};

class Lowercase final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override { change_to_lower_case(text); }
};

class StripAccents final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override { text.drop(is_combining_mark); }
};

}  // namespace

void normalize_unicode(AlignedText& text, UnicodeForm form) {
  if (is_in_form(text.bytes(), form)) return;
  const std::vector<Part> parts =
      decompose(text.bytes(), form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) return text.transform(compose(parts));
  std::vector<CodePointChange> changes;
  changes.reserve(parts.size());
  for (const Part& part : parts) changes.push_back(part.change);
  text.transform(changes);
}

void change_to_lower_case(AlignedText& text) {
  std::vector<CodePointChange> changes;
  changes.reserve(text.bytes().size());
  for (size_t position = 0; position < text.bytes().size();) {
    const CodePoints lower = lower_case(decode_utf8(text.bytes(), position));
    for (size_t i = 0; i < static_cast<size_t>(lower.count); ++i)
      changes.push_back({lower.values[i], i == 0 ? 0 : 1});
  }
  text.transform(changes);
}

std::unique_ptr<Normalizer> read_nfc(const JsonNode& /*node*/) {
  return std::make_unique<UnicodeNormalizer<UnicodeForm::kNfc>>();
}
std::unique_ptr<Normalizer> read_nfd(const JsonNode& /*node*/) {
  return std::make_unique<UnicodeNormalizer<UnicodeForm::kNfd>>();
}
std::unique_ptr<Normalizer> read_nfkc(const JsonNode& /*node*/) {
  return std::make_unique<UnicodeNormalizer<UnicodeForm::kNfkc>>();
}
std::unique_ptr<Normalizer> read_nfkd(const JsonNode& /*node*/) {
  return std::make_unique<UnicodeNormalizer<UnicodeForm::kNfkd>>();
}
std::unique_ptr<Normalizer> read_lowercase(const JsonNode& /*node*/) {
  return std::make_unique<Lowercase>();
}
std::unique_ptr<Normalizer> read_strip_accents(const JsonNode& /*node*/) {
  return std::make_unique<StripAccents>();
}

}  // namespace shoehorn
