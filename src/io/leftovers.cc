#include "io/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/process.h"
#include "io/file.h"

namespace shoehorn {
namespace {

bool has_lock(const FileDescriptor& descriptor) {
  return flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace

FileDescriptor try_lock(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open()) throw_system_error(path, "open it", errno);
  if (!has_lock(descriptor)) return {};
  return descriptor;
}

bool is_abandoned(const std::filesystem::path& path, int64_t process) {
  if (is_process_running(process) && process != getpid()) return false;
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return descriptor.is_open() && has_lock(descriptor);
}

}  // namespace shoehorn
