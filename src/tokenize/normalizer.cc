#include "tokenize/normalizer.h"

#include "tokenize/bert_normalizer.h"
#include "tokenize/part_list.h"
#include "tokenize/text_growth.h"
#include "tokenize/text_normalizers.h"
#include "tokenize/unicode_normalizers.h"

namespace shoehorn {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}

  void normalize(AlignedText& text) const override {
    const size_t before = text.bytes().size();
    for (const auto& part : parts_) {
      part->normalize(text);
      check_chain_growth(before, text.bytes().size());
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> read_normalizer_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const JsonNode& part : node["normalizers"].items()) parts.push_back(read_normalizer(part));
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

constexpr NamedPart<decltype(read_normalizer)> kNormalizers[] = {
    {"BertNormalizer", read_bert_normalizer},
    {"Lowercase", read_lowercase},
    {"NFC", read_nfc},
    {"NFD", read_nfd},
    {"NFKC", read_nfkc},
    {"NFKD", read_nfkd},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Sequence", read_normalizer_sequence},
    {"Strip", read_strip},
    {"StripAccents", read_strip_accents},
};

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonNode& node) {
  return reader_of<decltype(read_normalizer)>(kNormalizers, node)(node);
}

}  // namespace shoehorn
