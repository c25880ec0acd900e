#include "tokenize/json_node.h"

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

JsonNode::JsonNode(const Json& value, const std::filesystem::path& path, std::string key)
    : value_(value), path_(path), key_(std::move(key)) {}

void JsonNode::fail(std::string_view expected, std::string_view hint) const {
  const std::string got = value_.is_object() || value_.is_array()
                              ? value_.type_name()
                              : value_.dump(-1, ' ', true, Json::error_handler_t::replace);
  throw user_error("[{}] expected {} to be {}, got {}{}{}", path_.string(), key_, expected, got,
                   hint.empty() ? "" : "; ", hint);
}

JsonNode JsonNode::operator[](const char* key) const {
  if (!value_.is_object()) fail("an object");
  auto found = value_.find(key);
  if (found == value_.end())
    throw user_error("[{}] expected the key '{}' in {}, got none", path_.string(), key, key_);
  return JsonNode(*found, path_, key_ == "the file" ? key : key_ + "." + key);
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_.is_array()) fail("an array");
  std::vector<JsonNode> nodes;
  for (size_t i = 0; i < value_.size(); ++i)
    nodes.emplace_back(value_[i], path_, fmt::format("{}[{}]", key_, i));
  return nodes;
}

const std::string& JsonNode::text() const {
  if (!value_.is_string()) fail("a string");
  return value_.get_ref<const std::string&>();
}

bool JsonNode::flag() const {
  if (!value_.is_boolean()) fail("true or false");
  return value_.get<bool>();
}

bool JsonNode::flag_or(const char* key, bool otherwise) const {
  return gives(key) ? (*this)[key].flag() : otherwise;
}

int64_t JsonNode::integer(int64_t lowest, int64_t highest) const {
  const std::optional<int64_t> number = whole_number(value_);
  if (!number || *number < lowest || *number > highest)
    fail(fmt::format("an integer in {}..{}", lowest, highest));
  return *number;
}

const std::string& JsonNode::token_text() const {
  return value_.is_object() ? (*this)["content"].text() : text();
}

}  // namespace shoehorn
