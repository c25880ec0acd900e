#include "data/line_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"

namespace shoehorn {
namespace {

constexpr int64_t kBufferBytes = int64_t{256} << 10;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path, int64_t max_line_bytes)
    : file_(ReadOnlyFile::open(path)),
      source_(path.string()),
      max_line_bytes_(max_line_bytes),
      buffer_(static_cast<size_t>(std::min(kBufferBytes, file_.bytes()))) {
  skip_byte_order_mark();
}

bool LineReader::refill() {
  at_ = 0;
  end_ = static_cast<size_t>(std::min<int64_t>(kBufferBytes, file_.bytes() - offset_));
  file_.read_at(offset_, std::as_writable_bytes(std::span(buffer_).first(end_)));
  offset_ += static_cast<int64_t>(end_);
  return end_ > 0;
}

void LineReader::skip_byte_order_mark() {
  refill();
  const std::string_view start(buffer_.data(), end_);
  if (start.starts_with("\xef\xbb\xbf")) at_ = 3;
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    throw user_error("[{}] expected UTF-8, got a UTF-16 byte order mark; convert the file to UTF-8", source_);
  }
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool found = false;
  bool any = false;
  while (!found && (at_ < end_ || refill())) {
    any = true;
    const char* begin = buffer_.data() + at_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', end_ - at_));
    found = newline != nullptr;
    const size_t count = found ? static_cast<size_t>(newline - begin) : end_ - at_;
    if (static_cast<int64_t>(line.size() + count) > max_line_bytes_) {
      throw user_error(
          "[{}:{}] expected a line of at most {} bytes, got a longer one; is this a text file with one "
          "record a line?",
          source_, line_number_ + 1, max_line_bytes_);
    }
    line.append(begin, count);
    at_ += count + (found ? 1 : 0);
  }
  if (!any) return false;
  ended_in_newline_ = found;
  ++line_number_;
  if (const int64_t invalid = count_invalid_utf8(line); invalid > 0) {
    invalid_utf8_ += invalid;
    line = replace_invalid_utf8(line);
  }
  return true;
}

}  // namespace shoehorn
