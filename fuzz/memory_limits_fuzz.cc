// /proc and the memory cgroups (base/memory_limit.h), as a recorded tree. The parts of an input, with a NUL byte
// between them, are files of it.
#include <array>

#include "base/error.h"
#include "base/memory_limit.h"
#include "fuzz/reader.h"

namespace shoehorn::fuzz {
namespace {

constexpr std::array<std::string_view, 12> kFiles = {"proc/meminfo",
                                                     "proc/self/cgroup",
                                                     "proc/self/mountinfo",
                                                     "proc/self/status",
                                                     "proc/sys/vm/overcommit_memory",
                                                     "cgroup/cgroup.procs",
                                                     "cgroup/memory.max",
                                                     "cgroup/memory.current",
                                                     "cgroup/memory.stat",
                                                     "cgroup/a/memory.limit_in_bytes",
                                                     "cgroup/a/memory.usage_in_bytes",
                                                     "cgroup/a/memory.stat"};

void read(std::string_view input) {
  static const InputDirectory directory;
  // A mount outside of the recorded tree would be looked into.
  if (input.find("..") != std::string_view::npos) return;
  for (const std::string_view name : kFiles) {
    const size_t end = std::min(input.find('\0'), input.size());
    std::filesystem::create_directories((directory.path() / name).parent_path());
    directory.write(name, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  for (const MemoryLimit& limit : memory_limits(directory.path())) {
    CHECK(limit.limit_bytes >= 0 && limit.available_bytes >= 0, "{}: {} bytes of {}", describe(limit),
          limit.available_bytes, limit.limit_bytes);
  }
}

const Registration kRegistration("memory_limits", read);

}  // namespace
}  // namespace shoehorn::fuzz
