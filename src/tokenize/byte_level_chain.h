// The pre-tokenizers of well-known byte-level tokenizers, by name: how they cut, and their section of tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "tokenize/split_scanner.h"

namespace shoehorn {

struct ByteLevelChain {
  std::string_view name;
  SplitScanner scan;
  std::string_view expression;
};

std::span<const ByteLevelChain> byte_level_chains();
// UserError naming the known ones.
const ByteLevelChain& find_byte_level_chain(std::string_view name);

// The section pre_tokenizer of tokenizer.json. GPT-2's is a ByteLevel that splits itself; the others are a Split by
// their expression, and a ByteLevel that does not.
nlohmann::ordered_json pre_tokenizer_section(const ByteLevelChain& chain);

}  // namespace shoehorn
