#include "io/user_cache.h"

#include <cstdlib>

namespace shoehorn {

std::filesystem::path user_cache_directory(const std::string& folder) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") / ".cache";
  return cache / "shoehorn" / folder;
}

}  // namespace shoehorn
