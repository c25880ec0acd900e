#include "tokenize/tokenizer_json_sections.h"

#include <nlohmann/json.hpp>

namespace shoehorn {

using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_pairs_section(std::vector<std::pair<std::string, int64_t>> tokens, OrderedJson merges,
                               const OrderedJson& affix) {
  OrderedJson::object_t vocabulary;
  // As a vector, for the object would look for an equal key each time.
  auto& entries = static_cast<OrderedJson::object_t::Container&>(vocabulary);
  entries.reserve(tokens.size());
  for (auto& [token, id] : tokens) entries.emplace_back(std::move(token), id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", affix},
          {"end_of_word_suffix", affix},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

OrderedJson added_tokens_section(const std::vector<AddedToken>& tokens) {
  OrderedJson section = OrderedJson::array();
  for (const AddedToken& token : tokens)
    section.push_back({{"id", token.id},
                       {"content", token.content},
                       {"single_word", token.single_word},
                       {"lstrip", token.lstrip},
                       {"rstrip", token.rstrip},
                       {"normalized", token.normalized},
                       {"special", token.special}});
  return section;
}

OrderedJson byte_level_section(bool trim_offsets) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", trim_offsets}, {"use_regex", true}};
}

}  // namespace shoehorn
