// Decoders that change the texts of tokens: WordPiece, BPEDecoder, ByteFallback, Fuse, Strip, Replace.
#pragma once

#include "tokenize/decoder.h"

namespace shoehorn {

// A token without the prefix begins a new word. `cleanup` removes the space before punctuation and
// contractions.
std::unique_ptr<Decoder> make_word_piece_decoder(std::string prefix, bool cleanup);

std::unique_ptr<Decoder> read_word_piece_decoder(const JsonNode& node);
std::unique_ptr<Decoder> read_bpe_decoder(const JsonNode& node);
std::unique_ptr<Decoder> read_byte_fallback_decoder(const JsonNode& node);
std::unique_ptr<Decoder> read_fuse_decoder(const JsonNode& node);
std::unique_ptr<Decoder> read_strip_decoder(const JsonNode& node);
std::unique_ptr<Decoder> read_replace_decoder(const JsonNode& node);

}  // namespace shoehorn
