// Results of measurements in the user's cache: JSON with its own hash, so that a damaged file is known.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace shoehorn {

// $XDG_CACHE_HOME or ~/.cache, then shoehorn/<folder>/<hash of `key`>.json.
std::filesystem::path cached_json_path(const std::string& folder, const nlohmann::json& key);

// Makes the directories. SystemError if that or the writing fails.
void save_cached_json(const std::filesystem::path& path, nlohmann::json content);

struct CachedJson {
  std::optional<nlohmann::json> content = {};
  std::string defect = {};  // why there is none, of a file that is there; empty: there is no file
};

// Never an error: what cannot be used is not used.
CachedJson load_cached_json(const std::filesystem::path& path);

}  // namespace shoehorn
