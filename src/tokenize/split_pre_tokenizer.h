// The pre-tokenizer Split: cuts at the matches of a pattern.
#pragma once

#include "tokenize/pre_tokenizer.h"

namespace shoehorn {

std::unique_ptr<PreTokenizer> read_split(const JsonNode& node);

}  // namespace shoehorn
