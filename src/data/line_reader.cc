#include "data/line_reader.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/utf8.h"

namespace shoehorn {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path, int64_t max_line_bytes)
    : source_(path.string()), max_line_bytes_(max_line_bytes), buffer_(kBufferBytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw user_error("[{}] expected a file, got a directory; name one data file", source_);
  }
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_)
    throw user_error("[{}] expected a readable file, got: {}; check the path", source_, std::strerror(errno));
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // buffer_ is the buffer
  skip_byte_order_mark();
}

bool LineReader::refill() {
  at_ = 0;
  end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (end_ == 0 && std::ferror(file_.get()) != 0) {
    throw system_error("[{}] expected to read to the end of the file, got: {}", source_,
                       std::strerror(errno));
  }
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
  ++line_number_;
  invalid_utf8_ += count_invalid_utf8(line);
  return true;
}

}  // namespace shoehorn
