#include "base/processors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/cgroup.h"
#include "base/proc_file.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

// More processors than any kernel manages: a longer list is not one of processors.
constexpr int64_t kMostProcessors = 1 << 16;

// "max 100000" or "150000 100000"; without the second number the period is the kernel's default.
std::optional<double> read_version2(const fs::path& file) {
  std::ifstream in(file);
  std::string quota;
  std::string period = "100000";
  if (!(in >> quota)) return std::nullopt;
  in >> period;
  const std::optional<int64_t> granted = parse_count(quota);
  const std::optional<int64_t> of = parse_count(period);
  if (!granted || !of || *of == 0) return std::nullopt;
  return static_cast<double>(*granted) / static_cast<double>(*of);
}

// The quota is -1 where there is none.
std::optional<double> read_version1(const fs::path& file) {
  const std::optional<int64_t> granted = count_in(file);
  const std::optional<int64_t> of = count_in(file.parent_path() / "cpu.cfs_period_us");
  if (!granted || !of || *of == 0) return std::nullopt;
  return static_cast<double>(*granted) / static_cast<double>(*of);
}

// The smallest quota from the process's group up to the mount. A quota of 0 is no quota that a process can live on.
void narrow(const CgroupPlace& group, std::optional<CpuQuota>& quota) {
  fs::path place = group.place;
  while (true) {
    const fs::path file = group.mount / place / (group.is_version1 ? "cpu.cfs_quota_us" : "cpu.max");
    const std::optional<double> found = group.is_version1 ? read_version1(file) : read_version2(file);
    if (found && *found > 0 && (!quota || *found < quota->processors)) quota = {*found, file};
    if (place.empty()) return;
    place = place.parent_path();
  }
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "0-3,8"; empty where the file does not say.
std::string allowed_list(const fs::path& status) {
  std::ifstream in(status);
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kKey)) continue;
    std::istringstream rest(line.substr(kKey.size()));
    std::string list;
    rest >> list;
    return list;
  }
  return {};
}

}  // namespace

std::string allowed_processor_list() {
  const std::string list = allowed_list("/proc/self/status");
  return list.empty() ? "unknown" : list;
}

const std::string& first_processor_list() {
  static const std::string list = allowed_processor_list();
  return list;
}

std::vector<int64_t> parse_number_list(std::string_view text) {
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const std::optional<int64_t> first = parse_count(part.substr(0, dash));
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : parse_count(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= kMostProcessors) return {};
    for (int64_t number = *first; number <= *last; ++number) numbers.push_back(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return numbers;
}

int64_t Processors::usable() const {
  if (!quota || quota->processors >= static_cast<double>(allowed)) return std::max<int64_t>(1, allowed);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(quota->processors)));
}

Processors processors(const fs::path& root) {
  Processors found;
  const std::vector<int64_t> online = parse_number_list(first_line(root / "sys/devices/system/cpu/online"));
  const std::vector<int64_t> allowed = parse_number_list(allowed_list(root / "proc/self/status"));
  if (!online.empty()) {
    found.machine = static_cast<int64_t>(online.size());
    // The list of a process also has processors that are switched off.
    found.allowed = std::count_if(allowed.begin(), allowed.end(), [&](int64_t processor) {
      return std::find(online.begin(), online.end(), processor) != online.end();
    });
  } else {
    found.machine = std::max<int64_t>(1, static_cast<int64_t>(allowed.size()));
    found.allowed = static_cast<int64_t>(allowed.size());
  }
  if (found.allowed == 0) found.allowed = found.machine;
  for (const CgroupPlace& group : cgroups_of_process(root, "cpu")) narrow(group, found.quota);
  return found;
}

std::optional<MachineLoad> machine_load(const fs::path& root) {
  std::ifstream in(root / "proc/loadavg");
  MachineLoad load;
  double five_minutes = 0;
  double fifteen_minutes = 0;
  std::string tasks;
  if (!(in >> load.average >> five_minutes >> fifteen_minutes >> tasks)) return std::nullopt;
  const std::optional<int64_t> running = parse_count(tasks.substr(0, tasks.find('/')));
  if (!running) return std::nullopt;
  load.running = *running;
  return load;
}

std::optional<double> allowed_busy_seconds(const fs::path& root) {
  const std::vector<int64_t> allowed = parse_number_list(allowed_list(root / "proc/self/status"));
  std::ifstream in(root / "proc/stat");
  int64_t ticks = 0;
  size_t found = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || name == "cpu") continue;
    const std::optional<int64_t> processor = parse_count(std::string_view(name).substr(3));
    if (!processor || std::find(allowed.begin(), allowed.end(), *processor) == allowed.end()) continue;
    // user has guests' time in it, nice that of nice guests.
    int64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0,
            stolen = 0;
    if (!(fields >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen))
      return std::nullopt;
    ticks += user + nice + system + interrupts + soft_interrupts + stolen;
    ++found;
  }
  if (found == 0 || found != allowed.size()) return std::nullopt;
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

ProcessorUse processor_use() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nivcsw};
}

}  // namespace shoehorn
