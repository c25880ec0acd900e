// ByteLevel of Hugging Face's `tokenizers`, introduced by GPT-2: each byte of a text is written as one
// printable character, so that a vocabulary of characters can represent every text.
//
//   " é"  --bytes-->  20 C3 A9  --byte alphabet-->  "ĠÃ©"
//
// The alphabet: the bytes that are printable in Latin-1 stand for themselves; the other 68, in order, become
// U+0100 and following.
//
// As a pre-tokenizer it splits by GPT-2's pattern (if use_regex) and writes the pieces in the alphabet; it
// skips the second step if the model reads bytes directly. As a decoder it is the inverse. As a
// post-processor it trims offsets (post_processor.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenize/decoder.h"
#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

// The alphabet's character for a byte, as UTF-8.
std::string_view alphabet_character(uint8_t byte);
// The bytes of a text in the alphabet; nullopt if it contains another character.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

std::unique_ptr<PreTokenizer> read_byte_level_pre_tokenizer(const JsonNode& node);
std::unique_ptr<Decoder> read_byte_level_decoder(const JsonNode& node);

}  // namespace shoehorn
