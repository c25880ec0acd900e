// BertNormalizer of Hugging Face's `tokenizers`, and the words that its BertPreTokenizer makes: text -> normalized
// text -> words.
//
//   "  Café, 你好"  --normalize-->  "  cafe,  你  好 "  --next_word-->  "cafe" "," "你" "好"
//
// The steps of the normalizer, each over the whole text: clean (drop U+0000, U+FFFD and controls, any white
// space becomes a space), spaces around CJK ideographs, strip accents (canonical decomposition, then drop
// nonspacing marks), lower case. Here they run in one pass per code point; only the canonical ordering of
// marks that are kept looks further than one code point. Code points: unicode.h.
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

// Immutable and thread-safe; the scratch belongs to one thread.
class BertNormalizer final : public Normalizer {
 public:
  // Marks that wait for their canonical order.
  struct Mark {
    int32_t code_point;
    int combining_class;
  };
  using Scratch = std::vector<Mark>;

  explicit BertNormalizer(BertNormalizerOptions options);

  // Appends the normalized text (valid UTF-8 in and out) to `normalized`.
  void append_normalized(std::string_view text, Scratch& scratch, std::string& normalized) const;
  // With alignment step by step, each over the whole text.
  void normalize(AlignedText& text) const override;

 private:
  void append_code_point(int32_t code_point, Scratch& scratch, std::string& normalized) const;
  void append_stripped(int32_t code_point, Scratch& scratch, std::string& normalized) const;
  void append_lower(int32_t code_point, std::string& normalized) const;
  void append_marks(Scratch& scratch, std::string& normalized) const;

  static constexpr uint8_t kDropped = 0xFF;

  BertNormalizerOptions options_;
  std::array<uint8_t, 128> ascii_;  // what each ASCII character becomes, or kDropped
};

// strip_accents follows lowercase where it is null.
std::unique_ptr<Normalizer> read_bert_normalizer(const JsonNode& node);

// Finds the next word of normalized text at or after `position`: a punctuation character by itself or a run
// of characters that are neither white space nor punctuation. Moves position past it. Empty at the end of the
// text.
std::string_view next_word(std::string_view normalized, size_t& position);

}  // namespace shoehorn
