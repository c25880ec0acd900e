#include "base/process.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/memory_cgroup.h"
#include "base/proc_file.h"

namespace shoehorn {

namespace {

std::vector<int64_t> processes_of_machine() {
  std::vector<int64_t> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (const auto pid = parse_count(entry.path().filename().string())) processes.push_back(*pid);
  }
  return processes;
}

}  // namespace

int64_t process_resident_bytes() {
  return bytes_of_key("/proc/self/status", "VmRSS").value_or(0);
}

int64_t trimmed_resident_bytes() {
  malloc_trim(0);
  return process_resident_bytes();
}

int64_t process_peak_bytes() {
  return bytes_of_key("/proc/self/status", "VmHWM").value_or(0);
}

bool is_process_running(int64_t process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno != EPERM) return false;
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(stat, text);
  // The state stands behind the command, which is in parentheses and may have some itself.
  const size_t end_of_command = text.rfind(") ");
  return end_of_command == std::string::npos ||
         text.find_first_of("ZX", end_of_command + 2) != end_of_command + 2;
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

std::vector<ProcessMemory> largest_other_processes(int64_t count, const MemoryLimit& limit) {
  std::vector<ProcessMemory> all;
  for (const int64_t pid : limit.kind == MemoryLimitKind::kCgroup
                               ? processes_of_cgroup(limit.path.parent_path())
                               : processes_of_machine()) {
    if (pid == getpid()) continue;
    const std::filesystem::path folder = std::filesystem::path("/proc") / std::to_string(pid);
    const auto resident = bytes_of_key(folder / "status", "VmRSS");
    if (!resident) continue;
    std::ifstream comm(folder / "comm");
    std::string command;
    std::getline(comm, command);
    all.push_back({pid, command, *resident});
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.resident_bytes > b.resident_bytes; });
  if (static_cast<int64_t>(all.size()) > count) all.resize(static_cast<size_t>(count));
  return all;
}

}  // namespace shoehorn
