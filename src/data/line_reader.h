// Lines of a file through a fixed buffer, with their numbers and a limit on their length.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace shoehorn {

class LineReader {
 public:
  // UserError: no such file, a directory, UTF-16. A UTF-8 byte order mark is skipped.
  LineReader(const std::filesystem::path& path, int64_t max_line_bytes);

  // Replaces `line` by the next line without its LF (a CR stays). False at the end of the file, where a last
  // line without LF still counts. UserError: a line over the limit. SystemError: the file cannot be read.
  bool next(std::string& line);

  // Number, from 1, of the line that next() gave last.
  int64_t line_number() const { return line_number_; }
  // Ill-formed stretches of UTF-8 in all lines so far.
  int64_t invalid_utf8() const { return invalid_utf8_; }
  const std::string& source() const { return source_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  bool refill();
  void skip_byte_order_mark();

  std::string source_;
  int64_t max_line_bytes_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  int64_t line_number_ = 0;
  int64_t invalid_utf8_ = 0;
};

}  // namespace shoehorn
