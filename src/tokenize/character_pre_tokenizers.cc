#include "tokenize/character_pre_tokenizers.h"

#include "base/utf8.h"
#include "tokenize/bert_normalizer.h"
#include "tokenize/json_node.h"
#include "tokenize/split_behavior.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// Cuts at each character of a kind.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(bool (*is_cut_at)(int32_t), SplitBehavior behavior)
      : is_cut_at_(is_cut_at), behavior_(behavior) {}

  void split(PieceText& text) const override {
    std::vector<TextRange> matches;
    text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
      matches.clear();
      for (size_t position = piece.begin; position < piece.end;) {
        const size_t begin = position;
        if (is_cut_at_(decode_utf8(text.text.bytes(), position))) matches.push_back({begin, position});
      }
      append_split(matches, piece, behavior_, false, ranges);
    });
  }

 private:
  bool (*is_cut_at_)(int32_t code_point);
  SplitBehavior behavior_;
};

enum class WordKind { kWord, kSpace, kOther };

WordKind word_kind(int32_t code_point) {
  if (is_word_character(code_point)) return WordKind::kWord;
  return is_whitespace(code_point) ? WordKind::kSpace : WordKind::kOther;
}

// The matches of \w+|[^\w\s]+.
class Whitespace final : public PreTokenizer {
 public:
  void split(PieceText& text) const override {
    text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
      WordKind last = WordKind::kSpace;
      for (size_t position = piece.begin; position < piece.end;) {
        const size_t begin = position;
        const WordKind kind = word_kind(decode_utf8(text.text.bytes(), position));
        if (kind != WordKind::kSpace && kind == last)
          ranges.back().end = position;
        else if (kind != WordKind::kSpace)
          ranges.push_back({begin, position});
        last = kind;
      }
    });
  }
};

}  // namespace

void BertPreTokenizer::split(PieceText& text) const {
  text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
    const std::string_view bytes = text.view(piece);
    size_t position = 0;
    for (std::string_view word = next_word(bytes, position); !word.empty();
         word = next_word(bytes, position)) {
      const size_t end = piece.begin + position;
      ranges.push_back({end - word.size(), end});
    }
  });
}

std::unique_ptr<PreTokenizer> read_bert_pre_tokenizer(const JsonNode& /*node*/) {
  return std::make_unique<BertPreTokenizer>();
}

std::unique_ptr<PreTokenizer> read_whitespace(const JsonNode& /*node*/) {
  return std::make_unique<Whitespace>();
}

std::unique_ptr<PreTokenizer> read_whitespace_split(const JsonNode& /*node*/) {
  return std::make_unique<CharacterSplit>(is_whitespace, SplitBehavior::kRemoved);
}

std::unique_ptr<PreTokenizer> read_punctuation(const JsonNode& node) {
  const SplitBehavior behavior =
      node.has("behavior") ? read_split_behavior(node["behavior"]) : SplitBehavior::kIsolated;
  return std::make_unique<CharacterSplit>(is_punctuation, behavior);
}

std::unique_ptr<PreTokenizer> read_digits(const JsonNode& node) {
  const SplitBehavior behavior =
      node["individual_digits"].flag() ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return std::make_unique<CharacterSplit>(is_numeric, behavior);
}

}  // namespace shoehorn
