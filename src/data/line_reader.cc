#include "data/line_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"

namespace shoehorn {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path, int64_t max_line_bytes)
    : stream_(open_input(path)),
      source_(input_name(path)),
      max_line_bytes_(max_line_bytes),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {
  read_first_line();
  skip_byte_order_mark();
}

bool LineReader::refill() {
  at_ = 0;
  end_ = stream_->read(std::as_writable_bytes(std::span(buffer_.get(), kBufferBytes)));
  return end_ > 0;
}

// A pipe may give its bytes one by one. Empty lines before it are read with it.
void LineReader::read_first_line() {
  size_t first = std::string_view::npos;  // where the line begins
  for (bool is_whole = false; !is_whole && end_ < kBufferBytes;) {
    const size_t begin = end_;
    end_ += stream_->read(std::as_writable_bytes(std::span(buffer_.get() + begin, kBufferBytes - begin)));
    const std::string_view read(buffer_.get(), end_);
    if (first == std::string_view::npos) first = read.find_first_not_of("\r\n", begin);
    const bool has_end =
        first != std::string_view::npos && read.find('\n', std::max(first, begin)) != std::string_view::npos;
    is_whole = end_ == begin || has_end;
  }
}

void LineReader::skip_byte_order_mark() {
  const std::string_view start(buffer_.get(), end_);
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
    const char* begin = buffer_.get() + at_;
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
