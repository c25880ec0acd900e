#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace shoehorn {

// The ContentHash (base/content_hash.h) of a regular file's bytes, read a piece at a time. Errors of ReadOnlyFile
// (io/file.h). `on_bytes` is told of the bytes that were read so far, after each piece, and may be unset; what it throws
// ends the reading.
std::string content_of_file(const std::filesystem::path& path,
                            const std::function<void(int64_t bytes)>& on_bytes = {});

// The sizes of regular files, added; what is none, or is absent, has no bytes.
int64_t bytes_of_files(std::span<const std::filesystem::path> paths);

}  // namespace shoehorn
