// The memory cgroups that contain this process: where they are mounted, and what they allow.
//
// /proc/self/cgroup names one group per hierarchy, as seen from the process's cgroup namespace:
//   4:memory:/docker/ab12     version 1
//   0::/user.slice/x.scope    version 2
// /proc/self/mountinfo says which part of a hierarchy is mounted where. For example, "/docker
// /sys/fs/cgroup/memory" means that the group /docker and all groups below it appear under
// /sys/fs/cgroup/memory. The process's folder is then the mount point plus the rest of the group's name.
// Where the group's name does not begin with the mounted one (the namespace's root lies inside the mount, or
// the group lies outside of the namespace), the folder is the one whose cgroup.procs lists the process.
//
// Sources: cgroups(7), cgroup_namespaces(7), proc(5), and the kernel's admin-guide/cgroup-v1/memory.rst and
// admin-guide/cgroup-v2.rst.
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
