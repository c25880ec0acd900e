#include "io/input_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/stop_request.h"
#include "io/decompressor.h"
#include "io/file.h"

namespace shoehorn {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;  // of what is compressed

class RegularFile final : public InputStream {
 public:
  explicit RegularFile(const std::filesystem::path& path) : file_(ReadOnlyFile::open(path)) {}

  size_t read(std::span<std::byte> destination) override {
    const auto bytes =
        static_cast<size_t>(std::min(static_cast<int64_t>(destination.size()), file_.bytes() - offset_));
    file_.read_at(offset_, destination.first(bytes));
    offset_ += static_cast<int64_t>(bytes);
    return bytes;
  }

 private:
  ReadOnlyFile file_;
  int64_t offset_ = 0;
};

class StandardInput final : public InputStream {
 public:
  size_t read(std::span<std::byte> destination) override {
    for (;;) {
      // A read that a signal interrupts goes on waiting; this does not.
      constexpr int kMilliseconds = 200;
      pollfd waited{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const int ready = poll(&waited, 1, kMilliseconds);
      throw_if_stop_requested();
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      const ssize_t bytes = ::read(STDIN_FILENO, destination.data(), destination.size());
      if (bytes >= 0) return static_cast<size_t>(bytes);
      if (errno != EINTR && errno != EAGAIN) throw_system_error("standard input", "read it", errno);
    }
  }
};

// Bytes that were read to look at them, and then the others.
class PutBack final : public InputStream {
 public:
  PutBack(std::vector<std::byte> first, std::unique_ptr<InputStream> others)
      : first_(std::move(first)), others_(std::move(others)) {}

  size_t read(std::span<std::byte> destination) override {
    if (at_ == first_.size()) return others_->read(destination);
    const size_t bytes = std::min(destination.size(), first_.size() - at_);
    std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(at_), bytes, destination.begin());
    at_ += bytes;
    return bytes;
  }

 private:
  std::vector<std::byte> first_;
  size_t at_ = 0;
  std::unique_ptr<InputStream> others_;
};

class DecompressedStream final : public InputStream {
 public:
  DecompressedStream(std::string name, Compression compression, std::unique_ptr<InputStream> compressed)
      : name_(std::move(name)),
        compression_(compression),
        compressed_(std::move(compressed)),
        decompressor_(make_decompressor(compression, name_)),
        piece_(kPieceBytes) {}

  size_t read(std::span<std::byte> destination) override {
    for (;;) {
      if (at_ == end_ && !has_ended_) {
        at_ = 0;
        end_ = compressed_->read(piece_);
        has_ended_ = end_ == 0;
      }
      const auto [taken, given] =
          decompressor_->decompress(std::span(piece_).subspan(at_, end_ - at_), destination);
      at_ += taken;
      if (given > 0) return given;
      if (taken > 0 || !has_ended_) continue;
      if (decompressor_->is_complete()) return 0;
      throw user_error(
          "[{}] expected {} up to its end, got a file that ends early; copy or download it again", name_,
          compression_name(compression_));
    }
  }

 private:
  std::string name_;
  Compression compression_;
  std::unique_ptr<InputStream> compressed_;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<std::byte> piece_;
  size_t at_ = 0;
  size_t end_ = 0;
  bool has_ended_ = false;
};

// As many as there are, up to what tells compressions apart.
std::vector<std::byte> first_bytes(InputStream& stream) {
  std::vector<std::byte> first(4);
  size_t count = 0;
  while (count < first.size()) {
    const size_t bytes = stream.read(std::span(first).subspan(count));
    if (bytes == 0) break;
    count += bytes;
  }
  first.resize(count);
  return first;
}

void check_is_as_named(const std::filesystem::path& path, Compression by_name, Compression by_bytes) {
  if (by_name == by_bytes) return;
  if (by_name == Compression::kNone) {
    throw user_error("[{}] expected text, got {}; name it {}{}", path.string(), compression_name(by_bytes),
                     path.filename().string(), by_bytes == Compression::kGzip ? ".gz" : ".zst");
  }
  throw user_error("[{}] expected {}, as it is named, got {}; rename it, or compress it", path.string(),
                   compression_name(by_name),
                   by_bytes == Compression::kNone ? "something else" : compression_name(by_bytes));
}

}  // namespace

std::unique_ptr<InputStream> open_input(const std::filesystem::path& path) {
  std::unique_ptr<InputStream> stream;
  if (is_standard_input(path)) {
    stream = std::make_unique<StandardInput>();
  } else {
    stream = std::make_unique<RegularFile>(path);
  }
  std::vector<std::byte> first = first_bytes(*stream);
  const Compression compression = compression_of_bytes(first);
  if (!is_standard_input(path)) check_is_as_named(path, compression_of_name(path), compression);
  stream = std::make_unique<PutBack>(std::move(first), std::move(stream));
  if (compression == Compression::kNone) return stream;
  return std::make_unique<DecompressedStream>(input_name(path), compression, std::move(stream));
}

bool is_standard_input(const std::filesystem::path& path) {
  return path == "-";
}

std::string input_name(const std::filesystem::path& path) {
  return is_standard_input(path) ? "standard input" : path.string();
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  if (compression_of_name(path) == Compression::kNone) return path;
  return std::filesystem::path(path).replace_extension();
}

}  // namespace shoehorn
