#include "io/decompressor.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr std::string_view kDamagedHint = "copy or download it again";

class GzipDecompressor final : public Decompressor {
 public:
  explicit GzipDecompressor(std::string name) : name_(std::move(name)) {
    constexpr int kGzipHeader = 16;
    if (inflateInit2(&stream_, kGzipHeader + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;
  ~GzipDecompressor() override { inflateEnd(&stream_); }

  Step decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
    size_t padding = 0;
    if (is_complete_) {
      while (padding < input.size() && input[padding] == std::byte{0}) ++padding;
      input = input.subspan(padding);
      if (input.empty()) return {.taken = padding};
      inflateReset(&stream_);
      is_complete_ = false;
    }
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
    stream_.avail_in = count(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = count(output.size());
    const uInt begun_in = stream_.avail_in;
    const uInt begun_out = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    is_complete_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      throw user_error("[{}] expected gzip, got damaged bytes ({}); {}", name_,
                       stream_.msg != nullptr ? stream_.msg : "a preset dictionary is needed", kDamagedHint);
    }
    return {.taken = padding + begun_in - stream_.avail_in, .given = begun_out - stream_.avail_out};
  }

  bool is_complete() const override { return is_complete_; }

 private:
  static uInt count(size_t bytes) {
    return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
  }

  std::string name_;
  z_stream stream_ = {};
  bool is_complete_ = false;  // a member
};

class ZstandardDecompressor final : public Decompressor {
 public:
  explicit ZstandardDecompressor(std::string name) : name_(std::move(name)), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ZstandardDecompressor(const ZstandardDecompressor&) = delete;
  ZstandardDecompressor& operator=(const ZstandardDecompressor&) = delete;
  ~ZstandardDecompressor() override { ZSTD_freeDStream(stream_); }

  Step decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
    if (is_complete_ && input.empty()) return {};
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(result) != 0) throw_damaged(result);
    is_complete_ = result == 0;
    return {.taken = in.pos, .given = out.pos};
  }

  bool is_complete() const override { return is_complete_; }

 private:
  [[noreturn]] void throw_damaged(size_t result) const {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_frameParameter_windowTooLarge:
        throw user_error(
            "[{}] expected Zstandard with a window of at most 128 MiB, got a larger one; compress it again "
            "without --long",
            name_);
      default:
        throw user_error("[{}] expected Zstandard, got damaged bytes ({}); {}", name_,
                         ZSTD_getErrorName(result), kDamagedHint);
    }
  }

  std::string name_;
  ZSTD_DStream* stream_;
  bool is_complete_ = false;  // a frame
};

}  // namespace

std::string_view compression_name(Compression compression) {
  return compression == Compression::kGzip        ? "gzip"
         : compression == Compression::kZstandard ? "Zstandard"
                                                  : "no compression";
}

Compression compression_of_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return extension == ".gz"    ? Compression::kGzip
         : extension == ".zst" ? Compression::kZstandard
                               : Compression::kNone;
}

Compression compression_of_bytes(std::span<const std::byte> first) {
  const auto is = [&](size_t at, int byte) { return first[at] == static_cast<std::byte>(byte); };
  if (first.size() >= 2 && is(0, 0x1f) && is(1, 0x8b)) return Compression::kGzip;
  if (first.size() < 4) return Compression::kNone;
  const bool is_frame = is(0, 0x28) && is(1, 0xb5) && is(2, 0x2f) && is(3, 0xfd);
  const bool is_skippable =
      (first[0] & std::byte{0xf0}) == std::byte{0x50} && is(1, 0x2a) && is(2, 0x4d) && is(3, 0x18);
  return is_frame || is_skippable ? Compression::kZstandard : Compression::kNone;
}

std::unique_ptr<Decompressor> make_decompressor(Compression compression, std::string name) {
  CHECK(compression != Compression::kNone, "nothing to decompress in '{}'", name);
  if (compression == Compression::kGzip) return std::make_unique<GzipDecompressor>(std::move(name));
  return std::make_unique<ZstandardDecompressor>(std::move(name));
}

}  // namespace shoehorn
