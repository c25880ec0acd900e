// The processors that this process can use (Linux): those of the machine, those that its CPU affinity and cpuset leave,
// and the time on them that its cgroups grant.
//
// A quota counts time, not processors: 2.5 means that all threads together get two and a half seconds a second. With
// more threads than that, the kernel stops all of them for a part of each period, while the others wait.
//
// Sources: cgroups(7), sched_setaffinity(2), and the kernel's scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// The most threads that may be asked for: more than any machine has processors.
inline constexpr int64_t kMostThreads = 1 << 16;

// The processors' time per time that a cgroup grants: cpu.max (version 2), or cpu.cfs_quota_us of cpu.cfs_period_us.
struct CpuQuota {
  double processors = 0;
  std::filesystem::path path = {};  // the file with the quota
};

struct Processors {
  int64_t machine = 1;                 // online
  int64_t allowed = 1;                 // of these, by CPU affinity and cpuset
  std::optional<CpuQuota> quota = {};  // the smallest of the process's groups and their visible ancestors

  // How many threads can run at the same time: `allowed`, or the quota rounded up where that is less. At least 1.
  int64_t usable() const;
};

// Files are read below `root`: "/", or a recorded tree with proc/self, sys/devices/system/cpu/online and the cgroup
// file systems. Where a file is absent the machine has one processor, all are allowed, and no quota is set.
Processors processors(const std::filesystem::path& root = "/");

// Those that the CPU affinity and cpuset of this process allow, as "0-3,8"; "unknown" where the system does not say.
std::string allowed_processor_list();
// The same at the first call, which a process makes before it binds itself to fewer.
const std::string& first_processor_list();

// What the whole machine runs now, from /proc/loadavg; a container usually sees the machine's figures.
struct MachineLoad {
  double average = 0;   // runnable and blocked tasks, averaged over the last minute
  int64_t running = 0;  // tasks that run or want to run, this thread included
};

// nullopt if the file is absent or of another form.
std::optional<MachineLoad> machine_load(const std::filesystem::path& root = "/");

// What this process has used so far, all threads.
struct ProcessorUse {
  double cpu_seconds = 0;
  int64_t involuntary_switches = 0;  // a thread that could have gone on had to leave its processor
};
ProcessorUse processor_use();

// For how long the processors that are allowed to this process have been busy since the machine started, added up, with
// whatever process; from /proc/stat. nullopt if the file is absent or does not have them all.
std::optional<double> allowed_busy_seconds(const std::filesystem::path& root = "/");

// The numbers in a list such as "0-3,8": 0, 1, 2, 3, 8. Empty for any other text.
std::vector<int64_t> parse_number_list(std::string_view text);

}  // namespace shoehorn
