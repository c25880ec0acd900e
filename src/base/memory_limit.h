// How much memory this process can still take, and what sets that limit (Linux): the machine, the memory
// cgroups that the process is in (version 1 and 2, all ancestors), and its resource limits.
//
// Swap is never counted as room. A cgroup's memory.swap.max (version 2) therefore plays no part, and
// memory.memsw.limit_in_bytes (version 1, memory and swap together) only where it leaves less than the limit
// of memory alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

enum class MemoryLimitKind : uint8_t {
  kMachine,       // MemAvailable of MemTotal
  kOvercommit,    // CommitLimit, where vm.overcommit_memory is 2
  kCgroup,        // memory.max, memory.high, memory.limit_in_bytes, memory.memsw.limit_in_bytes
  kAddressSpace,  // RLIMIT_AS, `ulimit -v`
  kDataSegment,   // RLIMIT_DATA, `ulimit -d`
  kBudget,        // what the user allows, --memory_budget
  kOtherMachine,  // what another machine has, as its profile says
};

struct MemoryLimit {
  MemoryLimitKind kind = MemoryLimitKind::kMachine;
  std::filesystem::path path = {};  // of a cgroup: the file that says the limit
  int64_t limit_bytes = 0;          // for everyone whom the limit counts together
  int64_t available_bytes = 0;      // what this process can take besides what it has; 0 or more
};

// Every limit of this process, in no order. File systems are read below `root`: "/", or a recorded tree with
// proc/self, proc/meminfo and the cgroup file systems that its mountinfo names. What is absent or unreadable
// is no limit.
std::vector<MemoryLimit> memory_limits(const std::filesystem::path& root = "/");

// The one that leaves the least.
MemoryLimit binding_memory_limit(const std::filesystem::path& root = "/");

// What a new allocation can have: available_bytes of the limit that binds.
int64_t available_memory_bytes();

// "machine", "overcommit", "cgroup", "address_space", "data_segment", "budget", "other_machine": for JSON.
std::string memory_limit_name(MemoryLimitKind kind);

// For people: "this machine's memory", "the memory cgroup's limit /sys/fs/cgroup/a/memory.max", …
std::string describe(const MemoryLimit& limit);

}  // namespace shoehorn
