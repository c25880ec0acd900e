// /proc and the memory cgroups (base/memory_limit.h), as a recorded tree. The parts of an input, with a NUL byte
// between them, are files of it.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

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

// The tree of the last input. Only files that differ from it are written: twelve files take longer than their reader.
class Tree {
 public:
  Tree() {
    for (const std::string_view name : kFiles) {
      std::filesystem::create_directories((directory_.path() / name).parent_path());
      directory_.write(name, {});
    }
  }

  const std::filesystem::path& path() const { return directory_.path(); }

  void set(std::string_view input) {
    for (size_t i = 0; i < kFiles.size(); ++i) {
      const std::string_view bytes = input.substr(0, std::min(input.find('\0'), input.size()));
      if (bytes_[i] != bytes) directory_.write(kFiles[i], bytes_[i] = bytes);
      input.remove_prefix(std::min(bytes.size() + 1, input.size()));
    }
  }

 private:
  InputDirectory directory_;
  std::array<std::string, kFiles.size()> bytes_;
};

void fuzz_memory_limits(std::string_view input) {
  static Tree tree;
  // A mount outside of the recorded tree would be looked into.
  if (input.find("..") != std::string_view::npos) return;
  tree.set(input);
  for (const MemoryLimit& limit : memory_limits(tree.path())) {
    CHECK(limit.limit_bytes >= 0 && limit.available_bytes >= 0, "{}: {} bytes of {}", describe(limit),
          limit.available_bytes, limit.limit_bytes);
  }
}

const Registration kMemoryLimitsReader("memory_limits", fuzz_memory_limits);

}  // namespace
}  // namespace shoehorn::fuzz
