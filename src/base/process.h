// What the operating system says of this process and this machine (Linux /proc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory_limit.h"

namespace shoehorn {

// Resident bytes now (VmRSS) and at their highest so far (VmHWM).
int64_t process_resident_bytes();
int64_t process_peak_bytes();

// Seconds since this process was started, to a hundredth.
double process_age_seconds();

struct ProcessMemory {
  int64_t pid;
  std::string name;
  int64_t resident_bytes;
};

// The other processes that hold the most of what `limit` counts, largest first: those of its cgroup, or of
// the machine.
std::vector<ProcessMemory> largest_other_processes(int64_t count, const MemoryLimit& limit);

}  // namespace shoehorn
