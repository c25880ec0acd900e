#include "base/memory_cgroup.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "base/cgroup.h"
#include "base/proc_file.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

std::map<std::string, int64_t> read_stat(const fs::path& folder) {
  std::map<std::string, int64_t> stat;
  std::ifstream in(folder / "memory.stat");
  for (std::string key, value; in >> key >> value;) {
    if (const auto count = parse_count(value)) stat[key] = *count;
  }
  return stat;
}

// Reads the limits along the path from a process's group to the mount.
class Walk {
 public:
  explicit Walk(bool is_version1) : is_version1_(is_version1) {}

  std::vector<MemoryLimit> from(const fs::path& mount, fs::path place) && {
    const fs::path own = mount / place;
    while (true) {
      const fs::path folder = mount / place;
      read(folder);
      top_ = folder;
      if (place.empty()) break;
      place = place.parent_path();
      // Without use_hierarchy, a version 1 group does not count towards its ancestors.
      if (is_version1_ && count_in(mount / place / "memory.use_hierarchy") == 0) break;
    }
    if (is_version1_) read_hidden(own);
    return std::move(found_);
  }

 private:
  struct Pair {
    const char* limit;
    const char* usage;
    const char* of_ancestors;  // key of memory.stat: the smallest limit from here to the root
  };
  static constexpr std::array<Pair, 2> kVersion1 = {
      {{"memory.limit_in_bytes", "memory.usage_in_bytes", "hierarchical_memory_limit"},
       {"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", "hierarchical_memsw_limit"}}};
  static constexpr std::array<Pair, 2> kVersion2 = {
      {{"memory.max", "memory.current", ""}, {"memory.high", "memory.current", ""}}};

  // The kernel reclaims page-cache pages before it kills a process, but not pages that a process has mapped.
  int64_t taken(const fs::path& folder, const char* usage) const {
    const std::map<std::string, int64_t> stat = read_stat(folder);
    const auto of = [&](const char* version1, const char* version2) {
      const auto at = stat.find(is_version1_ ? version1 : version2);
      return at == stat.end() ? int64_t{0} : at->second;
    };
    const auto files = static_cast<uint64_t>(of("total_inactive_file", "inactive_file")) +
                       static_cast<uint64_t>(of("total_active_file", "active_file"));
    const auto mapped = static_cast<uint64_t>(of("total_mapped_file", "file_mapped"));
    const auto used = static_cast<uint64_t>(count_in(folder / usage).value_or(0));
    return static_cast<int64_t>(used - std::min(used, files - std::min(files, mapped)));
  }

  void add(const fs::path& says, int64_t limit, int64_t used) {
    found_.push_back({MemoryLimitKind::kCgroup, says, limit, std::max<int64_t>(0, limit - used)});
  }

  void read(const fs::path& folder) {
    for (const Pair& pair : is_version1_ ? kVersion1 : kVersion2) {
      if (const auto limit = count_in(folder / pair.limit))
        add(folder / pair.limit, *limit, taken(folder, pair.usage));
    }
  }

  // A limit that no visible group has belongs to an ancestor above the mount. That ancestor uses at least
  // what the topmost visible group uses.
  void read_hidden(const fs::path& own) {
    const std::map<std::string, int64_t> stat = read_stat(own);
    const size_t visible = found_.size();
    for (const Pair& pair : kVersion1) {
      const auto hidden = stat.find(pair.of_ancestors);
      if (hidden == stat.end()) continue;
      const bool is_seen = std::any_of(
          found_.begin(), found_.begin() + static_cast<int64_t>(visible), [&](const MemoryLimit& limit) {
            return limit.path.filename() == pair.limit && limit.limit_bytes <= hidden->second;
          });
      if (!is_seen) add(own / "memory.stat", hidden->second, taken(top_, pair.usage));
    }
  }

  bool is_version1_;
  fs::path top_;
  std::vector<MemoryLimit> found_;
};

}  // namespace

std::vector<MemoryLimit> memory_cgroup_limits(const fs::path& root) {
  std::vector<MemoryLimit> limits;
  for (const CgroupPlace& group : cgroups_of_process(root, "memory")) {
    const std::vector<MemoryLimit> found = Walk(group.is_version1).from(group.mount, group.place);
    limits.insert(limits.end(), found.begin(), found.end());
  }
  return limits;
}

std::vector<int64_t> processes_of_cgroup(const fs::path& folder) {
  std::vector<int64_t> processes;
  const auto read = [&](const fs::path& group) {
    std::ifstream in(group / "cgroup.procs");
    for (int64_t id = 0; in >> id;) processes.push_back(id);
  };
  read(folder);
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    if (at->is_directory(error)) read(at->path());
  }
  return processes;
}

}  // namespace shoehorn
