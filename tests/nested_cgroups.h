// Memory cgroups that a test makes, where the machine lets it.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace shoehorn::test_support {

inline bool write_to(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  return static_cast<bool>((out << text).flush());
}

// The name that /proc/self/cgroup has for this process behind `controllers`; "" where it has none.
inline std::string own_group(const std::string& controllers) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(controllers);
    if (at != std::string::npos) return line.substr(at + controllers.size());
  }
  return "";
}

// Two new groups, one in the other, of which the outer one has the limit. Removes them.
class NestedCgroups {
 public:
  ~NestedCgroups() {
    std::error_code ignored;
    std::filesystem::remove(inner(), ignored);
    std::filesystem::remove(outer_, ignored);
    if (!mounted_.empty()) {
      umount2(mounted_.c_str(), MNT_DETACH);
      std::filesystem::remove(mounted_, ignored);
    }
  }
  NestedCgroups() = default;
  NestedCgroups(const NestedCgroups&) = delete;
  NestedCgroups& operator=(const NestedCgroups&) = delete;

  // "" where there are the groups, else why not.
  std::string make_version1() {
    std::filesystem::path root = "/sys/fs/cgroup/memory";
    limit_file_ = "memory.limit_in_bytes";
    if (!std::filesystem::exists(root / limit_file_)) {
      std::string pattern = (std::filesystem::temp_directory_path() / "shoehorn-cgroup-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) return "no directory to mount at";
      mounted_ = pattern;
      if (mount("none", mounted_.c_str(), "cgroup", 0, "memory") != 0)
        return std::string("the memory controller of version 1 cannot be mounted: ") + std::strerror(errno);
      root = mounted_;
    }
    const std::filesystem::path own = root / std::filesystem::path(own_group(":memory:")).relative_path();
    return make_below(std::filesystem::exists(own / limit_file_) ? own : root);
  }

  std::string make_version2() {
    const std::filesystem::path root = "/sys/fs/cgroup";
    limit_file_ = "memory.max";
    std::ifstream in(root / "cgroup.controllers");
    std::string all;
    std::getline(in, all);
    if (all.find("memory") == std::string::npos) return "version 2 has no memory controller here";
    if (!write_to(root / "cgroup.subtree_control", "+memory"))
      return "the memory controller cannot be given on";
    std::string why = make_below(root);
    if (why.empty() && !write_to(outer_ / "cgroup.subtree_control", "+memory"))
      why = "the memory controller cannot be given on twice";
    return why;
  }

  std::filesystem::path inner() const { return outer_ / "inner"; }
  std::filesystem::path limit_file() const { return outer_ / limit_file_; }
  // How many processes of the inner group the kernel has ended for want of memory; -1 where it does not say.
  int64_t oom_kills() const {
    const bool is_version1 = limit_file_ == "memory.limit_in_bytes";
    std::ifstream in(inner() / (is_version1 ? "memory.oom_control" : "memory.events"));
    std::string key;
    for (int64_t count = 0; in >> key >> count;) {
      if (key == "oom_kill") return count;
    }
    return -1;
  }
  bool set_limit(int64_t bytes) const { return write_to(limit_file(), std::to_string(bytes)); }

 private:
  std::string make_below(const std::filesystem::path& parent) {
    std::error_code error;
    const std::filesystem::path outer = parent / ("shoehorn-test-" + std::to_string(getpid()));
    if (!std::filesystem::create_directory(outer, error)) return "no group can be made in " + parent.string();
    outer_ = outer;
    if (!std::filesystem::create_directory(inner(), error))
      return "no group can be made in " + outer.string();
    return std::filesystem::exists(limit_file()) ? "" : limit_file().string() + " is not there";
  }

  std::filesystem::path outer_;
  std::filesystem::path mounted_;
  std::string limit_file_;
};

}  // namespace shoehorn::test_support
