// The list of the parts of one kind: which reader belongs to which `type` in tokenizer.json.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "tokenize/json_node.h"

namespace shoehorn {

template <typename Reader>
struct NamedPart {
  std::string_view type;
  Reader* read;
};

// The reader for the `type` of `node`. UserError listing the known types for any other.
template <typename Reader>
Reader& reader_of(std::span<const NamedPart<Reader>> parts, const JsonNode& node) {
  const JsonNode type = node["type"];
  for (const auto& [name, read] : parts)
    if (type.text() == name) return *read;
  std::vector<std::string_view> names;
  for (const auto& [name, read] : parts) names.push_back(name);
  type.fail(fmt::format("one of {}", fmt::join(names, ", ")), "other parts of tokenizers are not read yet");
}

}  // namespace shoehorn
