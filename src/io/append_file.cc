#include "io/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace shoehorn {

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)),
      // O_NONBLOCK: a pipe that nobody reads is an error, and not waited for.
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)) {
  if (!descriptor_.is_open()) throw_system_error(path_, "open the file for appending", errno);
}

void AppendFile::write(std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error(path_, "append", errno);
    data.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace shoehorn
