// What the operating system says of this process and this machine (Linux /proc and cgroup v2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoehorn {

// Resident bytes now (VmRSS) and at their highest so far (VmHWM).
int64_t process_resident_bytes();
int64_t process_peak_bytes();

// Seconds since this process was started, to a hundredth.
double process_age_seconds();

// Bytes a new allocation can have before the machine or this process's cgroup runs out: the smaller of
// MemAvailable and the cgroup's limit less what it uses (without reclaimable file cache).
int64_t available_memory_bytes();

struct ProcessMemory {
  int64_t pid;
  std::string name;
  int64_t resident_bytes;
};

// The other processes that hold the most memory, largest first.
std::vector<ProcessMemory> largest_other_processes(int64_t count);

}  // namespace shoehorn
