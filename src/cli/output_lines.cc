#include "cli/output_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "io/file_descriptor.h"

namespace shoehorn {

namespace {

// A terminal that is gone answers every question with EIO; of a pipe without a reader poll says so.
bool has_no_reader(int descriptor) {
  if (isatty(descriptor) == 0 && errno == EIO) return true;
  pollfd pipe{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
}

std::string& line_prefix() {
  static std::string prefix;
  return prefix;
}

std::string with_prefixes(const std::string& text) {
  std::string lines;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size() - 1) + 1;
    lines += line_prefix() + text.substr(from, end - from);
    from = end;
  }
  return lines;
}

}  // namespace

void begin_lines_with(std::string prefix) {
  line_prefix() = std::move(prefix);
}

void leave_closed_output() {
  for (std::FILE* file : {stdout, stderr}) {
    if (!has_no_reader(fileno(file))) continue;
    const FileDescriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (nothing.get() >= 0) dup2(nothing.get(), fileno(file));
    std::clearerr(file);
  }
}

void print_flushed(std::FILE* file, const std::string& given) {
  const std::string text = line_prefix().empty() ? given : with_prefixes(given);
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0) return;
  const int error_number = errno;
  if (has_no_reader(fileno(file))) {
    leave_closed_output();
    return;
  }
  throw system_error("[standard {}] expected to write a line, got {}", file == stdout ? "output" : "error",
                     std::strerror(error_number));
}

}  // namespace shoehorn
