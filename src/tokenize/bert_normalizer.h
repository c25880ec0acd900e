// BertNormalizer and the words of BertPreTokenizer, as in Hugging Face's `tokenizers`: text -> normalized
// text -> words.
//
//   "  Café, 你好"  --normalize-->  "  cafe,  你  好 "  --next_word-->  "cafe" "," "你" "好"
//
// The normalizer's steps, each over the whole text: clean (drop U+0000, U+FFFD and control characters; any
// white space becomes a space), put spaces around CJK ideographs, strip accents (canonical decomposition,
// then drop nonspacing marks), lower case. Here they run as one pass, code point by code point; only the
// canonical ordering of kept marks looks further ahead. Properties of code points: unicode.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/normalizer.h"

namespace shoehorn {

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

// Immutable and thread-safe. Each thread needs its own scratch.
class BertNormalizer final : public Normalizer {
 public:
  // Marks that wait to be put into canonical order.
  struct Mark {
    int32_t code_point;
    int combining_class;
  };
  using Scratch = std::vector<Mark>;

  explicit BertNormalizer(BertNormalizerOptions options);

  // Appends the normalized text to `normalized`. Input and output are valid UTF-8.
  void append_normalized(std::string_view text, Scratch& scratch, std::string& normalized) const;
  // An aligned text goes through the steps one by one, each over the whole text.
  void normalize(AlignedText& text) const override;

 private:
  void append_code_point(int32_t code_point, Scratch& scratch, std::string& normalized) const;
  void append_stripped(int32_t code_point, Scratch& scratch, std::string& normalized) const;
  void append_lower(int32_t code_point, std::string& normalized) const;
  void append_marks(Scratch& scratch, std::string& normalized) const;

  static constexpr uint8_t kDropped = 0xFF;

  BertNormalizerOptions options_;
  std::array<uint8_t, 128> ascii_;  // the replacement of each ASCII character, or kDropped
};

// A null strip_accents takes the value of lowercase.
std::unique_ptr<Normalizer> read_bert_normalizer(const JsonNode& node);

// Returns the next word at or after `position` and moves position past it. A word is one punctuation
// character, or a run of characters that are neither white space nor punctuation. Empty at the end of the
// text.
std::string_view next_word(std::string_view normalized, size_t& position);

}  // namespace shoehorn
