#pragma once

#include <filesystem>
#include <string>

namespace shoehorn {

// The ContentHash (base/content_hash.h) of a regular file's bytes, read a piece at a time. Errors of ReadOnlyFile
// (io/file.h).
std::string content_of_file(const std::filesystem::path& path);

}  // namespace shoehorn
