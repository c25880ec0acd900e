// Lines of a file through a fixed buffer, with their numbers and a limit on their length. What is read is the
// file as long as it was when it was opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/file.h"

namespace shoehorn {

class LineReader {
 public:
  // Errors: those of ReadOnlyFile::open; UserError: UTF-16. A UTF-8 byte order mark is skipped.
  LineReader(const std::filesystem::path& path, int64_t max_line_bytes);

  // Replaces `line` by the next line without its LF (a CR stays), as UTF-8: U+FFFD stands for what is
  // ill-formed. False at the end of the file, where a last line without LF still counts. UserError: a line
  // over the limit. SystemError: the file cannot be read, or became shorter.
  bool next(std::string& line);

  // Number, from 1, of the line that next() gave last.
  int64_t line_number() const { return line_number_; }
  // Ill-formed stretches of UTF-8 in all lines so far.
  int64_t invalid_utf8() const { return invalid_utf8_; }
  const std::string& source() const { return source_; }

 private:
  bool refill();
  void skip_byte_order_mark();

  ReadOnlyFile file_;
  std::string source_;
  int64_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;  // in the file, of what follows the buffer
  int64_t line_number_ = 0;
  int64_t invalid_utf8_ = 0;
};

}  // namespace shoehorn
