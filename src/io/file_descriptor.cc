#include "io/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace shoehorn {

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  close();
}

int FileDescriptor::close() {
  if (descriptor_ < 0) return 0;
  const int result = ::close(std::exchange(descriptor_, -1));
  // After EINTR Linux has closed the descriptor all the same.
  return result == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace shoehorn
