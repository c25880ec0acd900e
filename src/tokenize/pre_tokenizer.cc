#include "tokenize/pre_tokenizer.h"

#include <algorithm>

#include "tokenize/byte_level.h"
#include "tokenize/character_pre_tokenizers.h"
#include "tokenize/metaspace.h"
#include "tokenize/part_list.h"
#include "tokenize/split_pre_tokenizer.h"
#include "tokenize/text_growth.h"

namespace shoehorn {
namespace {

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}

  void split(PieceText& text) const override {
    const size_t before = text.text.bytes().size();
    for (const auto& part : parts_) {
      part->split(text);
      check_chain_growth(before, text.text.bytes().size());
    }
  }
  bool leave_bytes() override { return !parts_.empty() && parts_.back()->leave_bytes(); }
  bool needs_alignment() const override {
    return std::ranges::any_of(parts_, [](const auto& part) { return part->needs_alignment(); });
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

std::unique_ptr<PreTokenizer> read_pre_tokenizer_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  for (const JsonNode& part : node["pretokenizers"].items()) parts.push_back(read_pre_tokenizer(part));
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

constexpr NamedPart<decltype(read_pre_tokenizer)> kPreTokenizers[] = {
    {"BertPreTokenizer", read_bert_pre_tokenizer},
    {"ByteLevel", read_byte_level_pre_tokenizer},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace_pre_tokenizer},
    {"Punctuation", read_punctuation},
    {"Sequence", read_pre_tokenizer_sequence},
    {"Split", read_split},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
};

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  return reader_of<decltype(read_pre_tokenizer)>(kPreTokenizers, node)(node);
}

}  // namespace shoehorn
