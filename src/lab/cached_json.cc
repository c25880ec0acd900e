#include "lab/cached_json.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/user_cache.h"

namespace shoehorn {

namespace {

std::string hash_of(const nlohmann::json& json) {
  const std::string text = json.dump();
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

}  // namespace

std::filesystem::path cached_json_path(const std::string& folder, const nlohmann::json& key) {
  return user_cache_directory(folder) / (hash_of(key) + ".json");
}

void save_cached_json(const std::filesystem::path& path, nlohmann::json content) {
  make_directories(path.parent_path());
  const std::string hash = hash_of(content);
  write_json_atomic(path, nlohmann::json{{"content", std::move(content)}, {"hash", hash}});
}

CachedJson load_cached_json(const std::filesystem::path& path) {
  if (!path_exists(path)) return {};
  try {
    nlohmann::json file = read_json(path);
    nlohmann::json& content = file.at("content");
    if (file.at("hash") == hash_of(content)) return {.content = std::move(content)};
  } catch (const UserError& error) {
    return {.defect = error.what()};
  } catch (const SystemError& error) {
    return {.defect = error.what()};
  } catch (const nlohmann::json::exception&) {
    // Damaged, too.
  }
  return {.defect = fmt::format("{} is damaged", path.string())};
}

}  // namespace shoehorn
