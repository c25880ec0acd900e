#include "io/file_content.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "io/file.h"

namespace shoehorn {

std::string content_of_file(const std::filesystem::path& path) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  ContentHash hash;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPieceBytes, file.bytes())));
  for (int64_t at = 0; at < file.bytes(); at += kPieceBytes) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, file.bytes() - at)));
    file.read_at(at, part);
    hash.add(part);
  }
  return hash.hex();
}

}  // namespace shoehorn
