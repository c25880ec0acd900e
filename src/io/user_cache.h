// Where the user's cache is.
#pragma once

#include <filesystem>
#include <string>

namespace shoehorn {

// $XDG_CACHE_HOME or ~/.cache, then shoehorn/<folder>. Makes nothing.
std::filesystem::path user_cache_directory(const std::string& folder);

}  // namespace shoehorn
