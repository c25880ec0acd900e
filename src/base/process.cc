#include "base/process.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace shoehorn {

namespace {

// The number of kB after `key:` in a /proc status-like file; nothing if the file or the key is absent.
std::optional<int64_t> kilobytes_of(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.size() > key.size() && line.compare(0, key.size(), key) == 0 && line[key.size()] == ':') {
      std::istringstream rest(line.substr(key.size() + 1));
      int64_t value = 0;
      if (rest >> value) return value;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// Room left under the tightest cgroup-v2 limit above this process; nothing where there is none.
std::optional<int64_t> cgroup_available_bytes() {
  std::ifstream in("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  if (group.empty()) return std::nullopt;
  std::optional<int64_t> room;
  const std::filesystem::path root = "/sys/fs/cgroup";
  for (std::filesystem::path at = group;; at = at.parent_path()) {
    const std::filesystem::path folder = root / at.relative_path();
    const auto limit = number_in(folder / "memory.max");
    const auto used = number_in(folder / "memory.current");
    if (limit && used) {
      int64_t reclaimable = 0;
      std::ifstream stat(folder / "memory.stat");
      for (std::string key, value; stat >> key >> value;) {
        if (key == "inactive_file") std::from_chars(value.data(), value.data() + value.size(), reclaimable);
      }
      const int64_t left = std::max<int64_t>(0, *limit - *used + reclaimable);
      room = room ? std::min(*room, left) : left;
    }
    if (at == at.parent_path()) break;
  }
  return room;
}

}  // namespace

int64_t process_resident_bytes() {
  return kilobytes_of("/proc/self/status", "VmRSS").value_or(0) * 1024;
}

int64_t process_peak_bytes() {
  return kilobytes_of("/proc/self/status", "VmHWM").value_or(0) * 1024;
}

double process_age_seconds() {
  // Field 22 of stat, counted behind the command's closing parenthesis (field 2), is the start in clock ticks
  // since boot.
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) rest >> field;
  double uptime = 0;
  std::ifstream("/proc/uptime") >> uptime;
  double started = 0;
  std::istringstream(field) >> started;
  return std::max(0.0, uptime - started / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

int64_t available_memory_bytes() {
  const int64_t machine = kilobytes_of("/proc/meminfo", "MemAvailable").value_or(0) * 1024;
  const auto group = cgroup_available_bytes();
  return group ? std::min(machine, *group) : machine;
}

std::vector<ProcessMemory> largest_other_processes(int64_t count) {
  std::vector<ProcessMemory> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    int64_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || pid == getpid()) continue;
    const auto resident = kilobytes_of(entry.path() / "status", "VmRSS");
    if (!resident) continue;
    std::ifstream comm(entry.path() / "comm");
    std::string command;
    std::getline(comm, command);
    all.push_back({pid, command, *resident * 1024});
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.resident_bytes > b.resident_bytes; });
  if (static_cast<int64_t>(all.size()) > count) all.resize(static_cast<size_t>(count));
  return all;
}

}  // namespace shoehorn
