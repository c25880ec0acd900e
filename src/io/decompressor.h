// gzip and Zstandard, decompressed piece by piece, with their checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace shoehorn {

enum class Compression : uint8_t { kNone, kGzip, kZstandard };

// "gzip", "Zstandard".
std::string_view compression_name(Compression compression);

// What a file is by its name (.gz, .zst; in letters of any case), and by its first bytes, of which four are enough.
Compression compression_of_name(const std::filesystem::path& path);
Compression compression_of_bytes(std::span<const std::byte> first);

// Not thread-safe.
class Decompressor {
 public:
  struct Step {
    size_t taken = 0;  // of the input
    size_t given = 0;  // into the output
  };

  virtual ~Decompressor() = default;

  // Decompresses some of `input` into `output`, of which neither may be empty at once; a step of nothing at all means
  // that it needs input. UserError "[name] …": bytes that are damaged, or that need more memory than is granted.
  virtual Step decompress(std::span<const std::byte> input, std::span<std::byte> output) = 0;

  // Whether everything that was begun is complete and given, so that the input may end here.
  virtual bool is_complete() const = 0;
};

// `name` is the file's, for messages; `compression` is not kNone.
std::unique_ptr<Decompressor> make_decompressor(Compression compression, std::string name);

}  // namespace shoehorn
