// A JSON value that knows its place in a file, so that errors name file and key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// Refers to the value and the path, which must outlive it.
class JsonNode {
 public:
  using Json = nlohmann::json;

  JsonNode(const Json& value, const std::filesystem::path& path, std::string key);

  // UserError "[file] expected KEY to be …, got …; hint".
  [[noreturn]] void fail(std::string_view expected, std::string_view hint = "") const;

  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  // True if the key exists and is not null.
  bool gives(const char* key) const { return has(key) && !value_[key].is_null(); }
  bool is_null() const { return value_.is_null(); }

  // Each of these throws UserError if the value has another type.
  JsonNode operator[](const char* key) const;
  std::vector<JsonNode> items() const;
  const std::string& text() const;
  bool flag() const;
  // The flag under `key`, or `otherwise` if it is absent or null.
  bool flag_or(const char* key, bool otherwise) const;
  int64_t integer(int64_t lowest, int64_t highest) const;
  // The text of a special token, written as a string or as an object with `content`.
  const std::string& token_text() const;

  const Json& value() const { return value_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const Json& value_;
  const std::filesystem::path& path_;
  std::string key_;
};

}  // namespace shoehorn
