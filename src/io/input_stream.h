// The bytes of a data file from its first to its last, whatever it lies in: a regular file, a compressed one, or
// standard input.
//
//   name.gz     gzip (RFC 1952); members one behind the other are one text, zeros behind the last are skipped
//   name.zst    Zstandard (RFC 8878) with windows of up to 128 MiB; frames one behind the other are one text
//   -           standard input; what its first bytes say is decompressed (a file of this name is ./-)
//   others      as they are
//
// Nothing is read ahead but the next piece, so memory does not depend on the size, compressed or not. A reader that
// keeps what it reads has to have a limit of its own: a few bytes may stand for very many.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace shoehorn {

// Not thread-safe.
class InputStream {
 public:
  virtual ~InputStream() = default;

  // Puts the next bytes into `destination`, which is not empty. Returns how many, 0 only at the end; a pipe gives what
  // it has. UserError naming the file: compressed bytes that are damaged or end early. SystemError: it cannot be read, or
  // a regular file has become shorter. Stopped (base/stop_request.h) where a stop is requested while a pipe is waited for.
  virtual size_t read(std::span<std::byte> destination) = 0;
};

// Opens a data file; a regular one is read up to the size that it has now. UserError: it does not exist or is no regular
// file; its first bytes are not what its name says (a .gz that is not gzip, or gzip under another name). SystemError: it
// cannot be opened or read.
std::unique_ptr<InputStream> open_input(const std::filesystem::path& path);

// Whether the path stands for standard input: "-". It can be read once.
bool is_standard_input(const std::filesystem::path& path);

// The name for messages: the path, or "standard input".
std::string input_name(const std::filesystem::path& path);

// "train.csv" of "train.csv.gz": the name of what a compressed file holds. Others as they are.
std::filesystem::path without_compression(const std::filesystem::path& path);

}  // namespace shoehorn
