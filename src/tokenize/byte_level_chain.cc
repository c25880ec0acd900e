#include "tokenize/byte_level_chain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace shoehorn {

std::span<const ByteLevelChain> byte_level_chains() {
  static const std::array<ByteLevelChain, 3> chains = {{{"gpt2", scan_gpt2, kGpt2Expression},
                                                        {"llama3", scan_llama3, kLlama3Expression},
                                                        {"qwen2", scan_qwen, kQwenExpression}}};
  return chains;
}

const ByteLevelChain& find_byte_level_chain(std::string_view name) {
  const auto chains = byte_level_chains();
  const auto chain = std::ranges::find(chains, name, &ByteLevelChain::name);
  if (chain != chains.end()) return *chain;
  std::vector<std::string_view> names;
  for (const ByteLevelChain& known : chains) names.push_back(known.name);
  throw user_error("[pre_tokenizer] expected one of {}, got '{}'", fmt::join(names, ", "), name);
}

nlohmann::ordered_json pre_tokenizer_section(const ByteLevelChain& chain) {
  const bool splits_itself = chain.scan == scan_gpt2;
  const nlohmann::ordered_json byte_level = {{"type", "ByteLevel"},
                                             {"add_prefix_space", false},
                                             {"trim_offsets", true},
                                             {"use_regex", splits_itself}};
  if (splits_itself) return byte_level;
  const nlohmann::ordered_json split = {{"type", "Split"},
                                        {"pattern", {{"Regex", chain.expression}}},
                                        {"behavior", "Isolated"},
                                        {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", nlohmann::ordered_json::array({split, byte_level})}};
}

}  // namespace shoehorn
