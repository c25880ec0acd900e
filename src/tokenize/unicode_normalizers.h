// The normalizers NFC, NFD, NFKC, NFKD, Lowercase and StripAccents.
//
// Decompositions, combining classes and marks come from the tables of `tokenizers` (unicode.h).
#pragma once

#include "tokenize/normalizer.h"

namespace shoehorn {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Unicode 15, annex 15. A text that is normalized already is not changed.
void normalize_unicode(AlignedText& text, UnicodeForm form);
// Lower case without context (no final sigma).
void change_to_lower_case(AlignedText& text);

std::unique_ptr<Normalizer> read_nfc(const JsonNode& node);
std::unique_ptr<Normalizer> read_nfd(const JsonNode& node);
std::unique_ptr<Normalizer> read_nfkc(const JsonNode& node);
std::unique_ptr<Normalizer> read_nfkd(const JsonNode& node);
std::unique_ptr<Normalizer> read_lowercase(const JsonNode& node);
std::unique_ptr<Normalizer> read_strip_accents(const JsonNode& node);

}  // namespace shoehorn
