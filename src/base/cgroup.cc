#include "base/cgroup.h"

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

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

Groups read_groups(const fs::path& file, std::string_view controller) {
  Groups groups;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t controllers = line.find(':');
    if (controllers == std::string::npos) continue;
    const size_t name = line.find(':', controllers + 1);
    if (name == std::string::npos || name + 1 >= line.size()) continue;
    const std::string list = line.substr(controllers + 1, name - controllers - 1);
    if (line.starts_with("0::")) groups.version2 = line.substr(name + 1);
    if (lists(list, controller)) groups.version1 = line.substr(name + 1);
  }
  return groups;
}

std::vector<Mount> read_mounts(const fs::path& file, const fs::path& root, std::string_view controller) {
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
    const bool is_version1 = behind[0] == "cgroup" && lists(behind[2], controller);
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

}  // namespace

std::vector<CgroupPlace> cgroups_of_process(const fs::path& root, std::string_view controller) {
  const fs::path self = root / "proc/self";
  const Groups groups = read_groups(self / "cgroup", controller);
  std::ifstream stat(self / "stat");
  int64_t pid = 0;
  stat >> pid;
  std::vector<CgroupPlace> places;
  for (const Mount& mount : read_mounts(self / "mountinfo", root, controller)) {
    const std::optional<fs::path>& group = mount.is_version1 ? groups.version1 : groups.version2;
    if (!group) continue;
    std::optional<fs::path> place = place_by_name(*group, mount.root);
    if (!place) place = place_by_process(mount.at, pid);
    if (place) places.push_back({mount.is_version1, mount.at, *place});
  }
  return places;
}

}  // namespace shoehorn
