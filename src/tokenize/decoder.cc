#include "tokenize/decoder.h"

#include "tokenize/byte_level.h"
#include "tokenize/metaspace.h"
#include "tokenize/part_list.h"
#include "tokenize/text_decoders.h"
#include "tokenize/text_growth.h"

namespace shoehorn {
namespace {

size_t size_of(const std::vector<std::string>& tokens) {
  size_t size = 0;
  for (const std::string& token : tokens) size += token.size();
  return size;
}

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}

  void decode(std::vector<std::string>& tokens) const override {
    const size_t before = size_of(tokens);
    for (const auto& part : parts_) {
      part->decode(tokens);
      check_chain_growth(before, size_of(tokens));
    }
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::unique_ptr<Decoder> read_decoder_sequence(const JsonNode& node) {
  std::vector<std::unique_ptr<Decoder>> parts;
  for (const JsonNode& part : node["decoders"].items()) parts.push_back(read_decoder(part));
  return std::make_unique<DecoderSequence>(std::move(parts));
}

constexpr NamedPart<decltype(read_decoder)> kDecoders[] = {
    {"BPEDecoder", read_bpe_decoder},       {"ByteFallback", read_byte_fallback_decoder},
    {"ByteLevel", read_byte_level_decoder}, {"Fuse", read_fuse_decoder},
    {"Metaspace", read_metaspace_decoder},  {"Replace", read_replace_decoder},
    {"Sequence", read_decoder_sequence},    {"Strip", read_strip_decoder},
    {"WordPiece", read_word_piece_decoder},
};

}  // namespace

std::unique_ptr<Decoder> read_decoder(const JsonNode& node) {
  return reader_of<decltype(read_decoder)>(kDecoders, node)(node);
}

}  // namespace shoehorn
