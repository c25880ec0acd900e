// The cgroups that contain this process: where their folders are.
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
// Sources: cgroups(7), cgroup_namespaces(7), proc(5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace shoehorn {

// A group of this process in one hierarchy. Its folder is mount / place; its visible ancestors are the folders from
// there up to `mount`.
struct CgroupPlace {
  bool is_version1 = false;
  std::filesystem::path mount;  // where the hierarchy, or the visible part of it, is mounted
  std::filesystem::path place;  // relative; empty for the mounted group itself
};

// The process's groups whose hierarchy has the controller ("memory", "cpu"), with files read below `root`. A group of
// version 2 is among them whether it has the controller or not.
std::vector<CgroupPlace> cgroups_of_process(const std::filesystem::path& root, std::string_view controller);

}  // namespace shoehorn
