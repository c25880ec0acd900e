// What the readers of tokenizer files share.
#pragma once

#include "tokenize/tokenizer.h"

namespace shoehorn::fuzz {

// Encodes `text` alone and its halves as a pair, whole and cut. Checks that ids are of the vocabulary, that
// each has a token type, that what is cut has the length that was asked for, that offsets change no id, and
// that ids are decoded to UTF-8.
void check_encodings(const Tokenizer& tokenizer, std::string_view text);

}  // namespace shoehorn::fuzz
