#include "cli/terminal_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "io/file_descriptor.h"

namespace shoehorn {

namespace {

// A terminal that is gone answers every question with EIO.
bool is_closed_terminal(int descriptor) {
  return isatty(descriptor) == 0 && errno == EIO;
}

}  // namespace

void leave_closed_terminal() {
  for (std::FILE* file : {stdout, stderr}) {
    if (!is_closed_terminal(fileno(file))) continue;
    const FileDescriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (nothing.get() >= 0) dup2(nothing.get(), fileno(file));
    std::clearerr(file);
  }
}

void print_line(std::FILE* file, const std::string& line) {
  errno = 0;
  if (std::fputs((line + "\n").c_str(), file) != EOF && std::fflush(file) == 0) return;
  const int error_number = errno;
  if (is_closed_terminal(fileno(file))) {
    leave_closed_terminal();
    return;
  }
  throw system_error("[standard {}] expected to write a line, got {}", file == stdout ? "output" : "error",
                     std::strerror(error_number));
}

}  // namespace shoehorn
