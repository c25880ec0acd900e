// Shared by the golden tests of tokenizers.
#pragma once

#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/crc32.h"

namespace shoehorn {

inline uint32_t crc32(std::string_view bytes, uint32_t crc) {
  return crc32(std::as_bytes(std::span(bytes)), crc);
}

// The text under `key`; or the bytes under `key`_hex, if the text is not UTF-8; nullopt if there is neither.
inline std::optional<std::string> text_of_case(const nlohmann::json& test_case, const std::string& key) {
  if (test_case.contains(key)) return test_case[key].get<std::string>();
  if (!test_case.contains(key + "_hex")) return std::nullopt;
  const std::string hex = test_case[key + "_hex"].get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// RFC 7386, except that null is a value.
inline void merge_json(nlohmann::json& target, const nlohmann::json& patch) {
  for (const auto& [key, value] : patch.items()) {
    if (value.is_object() && target.contains(key) && target[key].is_object())
      merge_json(target[key], value);
    else
      target[key] = value;
  }
}

// A name that GoogleTest takes.
inline std::string test_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace shoehorn
