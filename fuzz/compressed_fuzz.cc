// Compressed data files (io/input_stream.h): gzip and Zstandard, whichever the first bytes are of.
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/compress_testing.h"
#include "io/decompressor.h"
#include "io/input_stream.h"

namespace shoehorn::fuzz {
namespace {

// What a few bytes stand for may be endless: so much is looked at.
constexpr size_t kMaxBytes = size_t{4} << 20;

// A compressor sets up a megabyte for each input, which takes longer than all reading: one input in so many, by
// its length.
constexpr size_t kCompressedInputs = 16;

std::string read_in_pieces(const std::filesystem::path& path, size_t piece) {
  const std::unique_ptr<InputStream> stream = open_input(path);
  std::string text;
  std::string buffer(piece, '\0');
  while (text.size() < kMaxBytes) {
    const size_t bytes = stream->read(std::as_writable_bytes(std::span(buffer)));
    if (bytes == 0) return text;
    text.append(buffer, 0, bytes);
  }
  text.resize(kMaxBytes);
  return text;
}

void fuzz_compressed(std::string_view input) {
  static const InputDirectory directory;
  if (input.size() % kCompressedInputs == 0) {
    CHECK(read_in_pieces(directory.write("a.gz", gzip(input)), 4096) == input, "gzip gives other bytes");
    CHECK(read_in_pieces(directory.write("a.zst", zstandard(input)), 4096) == input,
          "Zstandard gives other bytes");
  }
  const bool is_gzip = compression_of_bytes(std::as_bytes(std::span(input))) == Compression::kGzip;
  const std::filesystem::path file = directory.write(is_gzip ? "input.gz" : "input.zst", input);
  const std::string whole = read_in_pieces(file, size_t{64} << 10);
  CHECK(read_in_pieces(file, 1000) == whole, "the size of the pieces changes what is read");
}

const Registration kCompressedReader("compressed", fuzz_compressed);

}  // namespace
}  // namespace shoehorn::fuzz
