#include "io/file_content.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/content_hash.h"
#include "io/file.h"

namespace shoehorn {

std::string content_of_file(const std::filesystem::path& path,
                            const std::function<void(int64_t bytes)>& on_bytes) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  ContentHash hash;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPieceBytes, file.bytes())));
  for (int64_t at = 0; at < file.bytes(); at += kPieceBytes) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, file.bytes() - at)));
    file.read_at(at, part);
    hash.add(part);
    if (on_bytes) on_bytes(at + std::ssize(part));
  }
  return hash.hex();
}

int64_t bytes_of_files(std::span<const std::filesystem::path> paths) {
  int64_t bytes = 0;
  for (const std::filesystem::path& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    const std::uintmax_t of_file = std::filesystem::file_size(path, error);
    if (!error) bytes += static_cast<int64_t>(of_file);
  }
  return bytes;
}

}  // namespace shoehorn
