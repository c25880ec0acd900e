// The memory cgroups that this process is in: where they are mounted, and what they allow.
//
// /proc/self/cgroup names a group in each hierarchy, as seen from the process's cgroup namespace:
//   4:memory:/docker/ab12     version 1
//   0::/user.slice/x.scope    version 2
// /proc/self/mountinfo says which part of a hierarchy is mounted where: "/docker /sys/fs/cgroup/memory" is the
// group /docker and what is below it. The process's folder is what its group's name has behind the mount's
// root; where the name does not begin so (a namespace whose root is inside the mount, a group outside of the
// namespace), it is the folder whose cgroup.procs names the process.
// Follows cgroups(7), cgroup_namespaces(7), proc(5), and of the kernel's documentation
// admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst.
#pragma once

#include <filesystem>
#include <vector>

#include "base/memory_limit.h"

namespace shoehorn {

// The limits of the process's groups and all their ancestors that can be seen below `root`, and the smallest
// of those that cannot where memory.stat (version 1) tells it.
std::vector<MemoryLimit> memory_cgroup_limits(const std::filesystem::path& root);

// The processes of a group and of the groups below it; `folder` is the group's.
std::vector<int64_t> processes_of_cgroup(const std::filesystem::path& folder);

}  // namespace shoehorn
