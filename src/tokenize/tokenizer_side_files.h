// The small JSON files beside a tokenizer's vocabulary. Each is read once, when it is first asked for. Not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tokenize/json_node.h"

namespace shoehorn {

class TokenizerSideFiles {
 public:
  explicit TokenizerSideFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& directory() const { return directory_; }

  // The object in the file, which this holds; an empty one if there is no such file. UserError naming the file if it is
  // malformed or holds something else.
  JsonNode tokenizer_config() const { return node("tokenizer_config.json"); }
  JsonNode special_tokens_map() const { return node("special_tokens_map.json"); }
  JsonNode added_tokens() const { return node("added_tokens.json"); }
  JsonNode model_config() const { return node("config.json"); }

 private:
  struct File {
    std::filesystem::path path;
    nlohmann::json content = nlohmann::json::object();
  };

  JsonNode node(const std::string& name) const;

  std::filesystem::path directory_;
  mutable std::map<std::string, File> files_;
};

}  // namespace shoehorn
