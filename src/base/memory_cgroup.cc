#include "base/memory_cgroup.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "base/proc_file.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

struct Mount {
  bool is_version1 = false;
  fs::path root;  // the group that is mounted
  fs::path at;    // below `root` of the caller
};

// The names of the process's groups; in a hybrid set-up both.
struct Groups {
  std::optional<fs::path> version1;
  std::optional<fs::path> version2;
};

bool lists(std::string_view commas, std::string_view word) {
  while (true) {
    const size_t comma = commas.find(',');
    if (commas.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    commas.remove_prefix(comma + 1);
  }
}

// "\040" is a space: mountinfo writes space, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
                           is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

Groups read_groups(const fs::path& file) {
  Groups groups;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t controllers = line.find(':');
    if (controllers == std::string::npos) continue;
    const size_t name = line.find(':', controllers + 1);
    if (name == std::string::npos || name + 1 >= line.size()) continue;
    const std::string list = line.substr(controllers + 1, name - controllers - 1);
    if (line.starts_with("0::")) groups.version2 = line.substr(name + 1);
    if (lists(list, "memory")) groups.version1 = line.substr(name + 1);
  }
  return groups;
}

std::vector<Mount> read_mounts(const fs::path& file, const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    // Six fields, any number of tags, "-", then the file system's type, its source and its options.
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::array<std::string, 5> before;
    std::istringstream first(line.substr(0, dash));
    for (std::string& field : before) first >> field;
    std::array<std::string, 3> behind;
    std::istringstream last(line.substr(dash + 3));
    for (std::string& field : behind) last >> field;
    const bool is_version1 = behind[0] == "cgroup" && lists(behind[2], "memory");
    if (!is_version1 && behind[0] != "cgroup2") continue;
    mounts.push_back(
        {is_version1, unescape(before[3]), root / fs::path(unescape(before[4])).relative_path()});
  }
  return mounts;
}

// The group's folder relative to the mount point; empty for the mounted group itself. nullopt if the names do
// not tell.
std::optional<fs::path> place_by_name(const fs::path& group, const fs::path& mounted) {
  const fs::path place = group.lexically_relative(mounted);
  if (place.empty() || *place.begin() == "..") return std::nullopt;
  return place == "." ? fs::path() : place;
}

std::optional<fs::path> place_by_process(const fs::path& mount, int64_t pid) {
  const auto holds = [&](const fs::path& folder) {
    std::ifstream in(folder / "cgroup.procs");
    for (int64_t id = 0; in >> id;) {
      if (id == pid) return true;
    }
    return false;
  };
  if (holds(mount)) return fs::path();
  std::error_code error;
  for (fs::recursive_directory_iterator at(mount, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    if (at->is_directory(error) && holds(at->path())) return at->path().lexically_relative(mount);
  }
  return std::nullopt;
}

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
  const fs::path self = root / "proc/self";
  const Groups groups = read_groups(self / "cgroup");
  std::ifstream stat(self / "stat");
  int64_t pid = 0;
  stat >> pid;
  std::vector<MemoryLimit> limits;
  for (const Mount& mount : read_mounts(self / "mountinfo", root)) {
    const std::optional<fs::path>& group = mount.is_version1 ? groups.version1 : groups.version2;
    if (!group) continue;
    std::optional<fs::path> place = place_by_name(*group, mount.root);
    if (!place) place = place_by_process(mount.at, pid);
    if (!place) continue;
    const std::vector<MemoryLimit> found = Walk(mount.is_version1).from(mount.at, *place);
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
