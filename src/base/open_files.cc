#include "base/open_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace shoehorn {

namespace {

// Of libraries, standard streams and what a run writes.
constexpr int64_t kOthers = 64;

}  // namespace

void allow_open_files(int64_t count) {
  const auto needed = static_cast<rlim_t>(count + kOthers);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    throw system_error(
        "[ulimit -n] expected {} files that may be open at a time, got at most {}; raise the hard limit (nofile in "
        "/etc/security/limits.conf)",
        needed, limit.rlim_max);
  }
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw system_error("[ulimit -n] expected to raise it to {}, got: {}", needed, std::strerror(errno));
}

}  // namespace shoehorn
