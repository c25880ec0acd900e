// What the operating system reports about this process and the others on this machine (Linux /proc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory_limit.h"

namespace shoehorn {

// Resident bytes of this process: now (VmRSS), and at their highest so far (VmHWM).
int64_t process_resident_bytes();
int64_t process_peak_bytes();
// Resident bytes when malloc has given back what is free.
int64_t trimmed_resident_bytes();

// Whether there is such a process, of any user, that has not ended. One that has ended keeps its id until its parent asks for its
// exit code; its files are closed, and its locks are gone.
bool is_process_running(int64_t process);

// Seconds since this process was started, with a resolution of 0.01 s.
double process_age_seconds();

struct ProcessMemory {
  int64_t pid;
  std::string name;
  int64_t resident_bytes;
};

// The `count` other processes with the most resident memory, largest first, among those that `limit` counts:
// the processes of its cgroup, or all of the machine.
std::vector<ProcessMemory> largest_other_processes(int64_t count, const MemoryLimit& limit);

}  // namespace shoehorn
