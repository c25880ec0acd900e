// The sections of tokenizer.json that a byte-level BPE has, with the keys in the order of `tokenizers`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokenize/added_tokens.h"

namespace shoehorn {

// `tokens` in order of id, `merges` as pairs of tokens. `affix` is the text around words, which there is none of: null, or
// empty as transformers writes it.
nlohmann::ordered_json byte_pairs_section(std::vector<std::pair<std::string, int64_t>> tokens,
                                          nlohmann::ordered_json merges, const nlohmann::ordered_json& affix);

nlohmann::ordered_json added_tokens_section(const std::vector<AddedToken>& tokens);

// Of a post-processor or a decoder, where only `trim_offsets` can have an effect.
nlohmann::ordered_json byte_level_section(bool trim_offsets);

}  // namespace shoehorn
