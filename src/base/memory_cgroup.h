// What the memory cgroups that contain this process (base/cgroup.h) allow.
//
// Sources: cgroups(7) and the kernel's admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst.
#pragma once

#include <filesystem>
#include <vector>

#include "base/memory_limit.h"

namespace shoehorn {

// The limits of the process's groups and of all their visible ancestors, with files read below `root`. Under
// version 1 memory.stat also tells the smallest limit of the ancestors that are not visible; it is included
// where it binds.
std::vector<MemoryLimit> memory_cgroup_limits(const std::filesystem::path& root);

// The ids of the processes in a group and in all groups below it. `folder` is the group's.
std::vector<int64_t> processes_of_cgroup(const std::filesystem::path& folder);

}  // namespace shoehorn
