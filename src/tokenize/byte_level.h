// ByteLevel of Hugging Face's `tokenizers`, as GPT-2 began it: a text is a sequence of bytes, and each byte is written
// as one printable character, so that a vocabulary of characters holds every text.
//
//   " é"  --bytes-->  20 C3 A9  --byte alphabet-->  "ĠÃ©"
//
// The alphabet: the printable characters of Latin-1 stand for themselves; the other 68 bytes, in order, for U+0100
// and on.
//
// As a pre-tokenizer it cuts with GPT-2's pattern (use_regex) and writes pieces in the alphabet; before a model that
// reads bytes it leaves that out. As a decoder it undoes it. As a post-processor it trims offsets (post_processor.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenize/decoder.h"
#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

// The character of the alphabet that stands for a byte, as UTF-8.
std::string_view alphabet_character(uint8_t byte);
// The bytes that a text in the alphabet stands for; nothing where another character is in it.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

std::unique_ptr<PreTokenizer> read_byte_level_pre_tokenizer(const JsonNode& node);
std::unique_ptr<Decoder> read_byte_level_decoder(const JsonNode& node);

}  // namespace shoehorn
