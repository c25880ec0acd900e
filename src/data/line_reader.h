// Reads the lines of a data file (io/input_stream.h: compressed files and standard input too) through a fixed buffer,
// with line numbers and a limit on their length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "io/input_stream.h"

namespace shoehorn {

class LineReader {
 public:
  // Errors: those of open_input; UserError for UTF-16. A UTF-8 byte order mark is skipped.
  LineReader(const std::filesystem::path& path, int64_t max_line_bytes);

  // Replaces `line` by the next line without its LF (a CR stays). Ill-formed UTF-8 becomes U+FFFD. Returns
  // false at the end of the file; a last line without LF counts as a line. UserError: a line over the limit.
  // Other errors: those of InputStream::read.
  bool next(std::string& line);

  // The bytes that are in the buffer and not yet read. Before the first line they hold all of the first one that is not
  // empty, or the 256 KiB that the buffer takes.
  std::string_view beginning() const { return {buffer_.get() + at_, end_ - at_}; }
  // False if the last line that next() returned is the last one of the file and has no LF.
  bool ended_in_newline() const { return ended_in_newline_; }
  // Number of the last line that next() returned; the first is 1.
  int64_t line_number() const { return line_number_; }
  // How many ill-formed stretches of UTF-8 were found so far.
  int64_t invalid_utf8() const { return invalid_utf8_; }
  const std::string& source() const { return source_; }

 private:
  bool refill();
  void read_first_line();
  void skip_byte_order_mark();

  std::unique_ptr<InputStream> stream_;
  std::string source_;
  int64_t max_line_bytes_;
  std::unique_ptr<char[]> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  bool ended_in_newline_ = false;
  int64_t line_number_ = 0;
  int64_t invalid_utf8_ = 0;
};

}  // namespace shoehorn
