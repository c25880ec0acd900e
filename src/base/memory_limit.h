// How much more memory this process can take, and which limit says so (Linux): the machine, the memory
// cgroups that contain the process (versions 1 and 2, all ancestors), and its resource limits.
//
// Swap never counts as room. So memory.swap.max of a version 2 cgroup plays no part, and
// memory.memsw.limit_in_bytes of version 1 (memory and swap together) counts only where it leaves less than
// the limit of memory alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

enum class MemoryLimitKind : uint8_t {
  kMachine,       // MemAvailable of MemTotal in /proc/meminfo
  kOvercommit,    // CommitLimit, where vm.overcommit_memory is 2
  kCgroup,        // memory.max, memory.high, memory.limit_in_bytes, memory.memsw.limit_in_bytes
  kAddressSpace,  // RLIMIT_AS, `ulimit -v`
  kDataSegment,   // RLIMIT_DATA, `ulimit -d`
  kBudget,        // --memory_budget: what the user allows
  kOtherMachine,  // memory of another machine, from its profile
};

struct MemoryLimit {
  MemoryLimitKind kind = MemoryLimitKind::kMachine;
  std::filesystem::path path = {};  // kCgroup only: the file with the limit
  int64_t limit_bytes = 0;          // shared by everything that the limit counts together
  int64_t available_bytes = 0;      // how much more this process can take; 0 or more
};

// Every limit of this process, in no order. Files are read below `root`: "/", or a recorded tree that has
// proc/self, proc/meminfo and the cgroup file systems that its mountinfo names. A file that is absent or
// unreadable sets no limit.
std::vector<MemoryLimit> memory_limits(const std::filesystem::path& root = "/");

// The limit that leaves the fewest bytes to a process's pages.
MemoryLimit binding_memory_limit(const std::filesystem::path& root = "/");

// How many bytes a new allocation can have: available_bytes of the binding limit.
int64_t available_memory_bytes();

// How many of `bytes` that a limit of the kind leaves can be pages of a process. The machine and cgroups also count what the kernel
// keeps for it: tables of the pages, 8 bytes for each 4 KiB (also for huge pages, which the kernel may have to split), and a
// stack for each of `threads` threads. The other kinds count a process's own bytes only.
int64_t room_for_pages(MemoryLimitKind kind, int64_t bytes, int64_t threads = 0);

// The bytes that this process may still lock in memory: RLIMIT_MEMLOCK (`ulimit -l`) less what it has locked. The largest
// int64 where there is no limit, or the process has CAP_IPC_LOCK. `root` as above.
int64_t lockable_memory_bytes(const std::filesystem::path& root = "/");

// The name in JSON: "machine", "overcommit", "cgroup", "address_space", "data_segment", "budget",
// "other_machine".
std::string memory_limit_name(MemoryLimitKind kind);

// For people: "this machine's memory", "the memory cgroup's limit /sys/fs/cgroup/a/memory.max", …
std::string describe(const MemoryLimit& limit);

}  // namespace shoehorn
