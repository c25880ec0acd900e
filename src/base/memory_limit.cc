#include "base/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "base/format.h"
#include "base/memory_cgroup.h"
#include "base/proc_file.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

// x86-64 and ARM64 with pages of 4 KiB: a table of a page has 512 entries, each for a page or for another table.
constexpr int64_t kEntriesOfPageTable = 512;
constexpr int64_t kKernelStackBytes = int64_t{16} << 10;

// The soft limit, the first column behind a name that is padded with spaces; nothing for "unlimited".
std::optional<int64_t> soft_limit(const fs::path& file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::string value;
    rest >> value;
    return parse_count(value);
  }
  return std::nullopt;
}

// Bit 14 of the effective capabilities, of which `status` has a hexadecimal number.
bool may_lock_without_limit(const fs::path& status) {
  constexpr std::string_view kKey = "CapEff:";
  constexpr int kIpcLock = 14;
  std::ifstream in(status);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kKey)) continue;
    uint64_t capabilities = 0;
    std::istringstream(line.substr(kKey.size())) >> std::hex >> capabilities;
    return (capabilities >> kIpcLock & 1) != 0;
  }
  return false;
}

}  // namespace

int64_t lockable_memory_bytes(const fs::path& root) {
  const fs::path self = root / "proc/self";
  const std::optional<int64_t> limit = soft_limit(self / "limits", "Max locked memory");
  if (!limit || may_lock_without_limit(self / "status")) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(0, *limit - bytes_of_key(self / "status", "VmLck").value_or(0));
}

std::vector<MemoryLimit> memory_limits(const fs::path& root) {
  std::vector<MemoryLimit> limits = memory_cgroup_limits(root);
  const auto add = [&](MemoryLimitKind kind, std::optional<int64_t> limit, std::optional<int64_t> used) {
    if (limit && used) limits.push_back({kind, {}, *limit, std::max<int64_t>(0, *limit - *used)});
  };
  const fs::path meminfo = root / "proc/meminfo";
  if (const auto available = bytes_of_key(meminfo, "MemAvailable")) {
    limits.push_back(
        {MemoryLimitKind::kMachine, {}, bytes_of_key(meminfo, "MemTotal").value_or(*available), *available});
  }
  if (count_in(root / "proc/sys/vm/overcommit_memory") == 2) {
    add(MemoryLimitKind::kOvercommit, bytes_of_key(meminfo, "CommitLimit"),
        bytes_of_key(meminfo, "Committed_AS"));
  }
  const fs::path self = root / "proc/self";
  add(MemoryLimitKind::kAddressSpace, soft_limit(self / "limits", "Max address space"),
      bytes_of_key(self / "status", "VmSize"));
  add(MemoryLimitKind::kDataSegment, soft_limit(self / "limits", "Max data size"),
      bytes_of_key(self / "status", "VmData"));
  return limits;
}

MemoryLimit binding_memory_limit(const fs::path& root) {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  const std::vector<MemoryLimit> limits = memory_limits(root);
  const auto least =
      std::min_element(limits.begin(), limits.end(), [](const MemoryLimit& a, const MemoryLimit& b) {
        return room_for_pages(a.kind, a.available_bytes) < room_for_pages(b.kind, b.available_bytes);
      });
  return least == limits.end() ? MemoryLimit{MemoryLimitKind::kMachine, {}, kUnknown, kUnknown} : *least;
}

int64_t available_memory_bytes() {
  return binding_memory_limit().available_bytes;
}

int64_t room_for_pages(MemoryLimitKind kind, int64_t bytes, int64_t threads) {
  if (kind != MemoryLimitKind::kMachine && kind != MemoryLimitKind::kCgroup) return bytes;
  const int64_t left = std::max<int64_t>(0, bytes - threads * kKernelStackBytes);
  return left / kEntriesOfPageTable * (kEntriesOfPageTable - 1);
}

std::string memory_limit_name(MemoryLimitKind kind) {
  switch (kind) {
    case MemoryLimitKind::kMachine:
      return "machine";
    case MemoryLimitKind::kOvercommit:
      return "overcommit";
    case MemoryLimitKind::kCgroup:
      return "cgroup";
    case MemoryLimitKind::kAddressSpace:
      return "address_space";
    case MemoryLimitKind::kDataSegment:
      return "data_segment";
    case MemoryLimitKind::kBudget:
      return "budget";
    case MemoryLimitKind::kOtherMachine:
      return "other_machine";
  }
  return "unknown";
}

std::string describe(const MemoryLimit& limit) {
  const std::string bytes = format_bytes(limit.limit_bytes);
  switch (limit.kind) {
    case MemoryLimitKind::kMachine:
      return fmt::format("this machine's memory, {}", bytes);
    case MemoryLimitKind::kOvercommit:
      return fmt::format("what the machine promises to all processes, {}: vm.overcommit_memory is 2", bytes);
    case MemoryLimitKind::kCgroup:
      return fmt::format("the memory cgroup's limit, {} in {}", bytes, limit.path.string());
    case MemoryLimitKind::kAddressSpace:
      return fmt::format("the address space of a process, {}: ulimit -v", bytes);
    case MemoryLimitKind::kDataSegment:
      return fmt::format("the data segment of a process, {}: ulimit -d", bytes);
    case MemoryLimitKind::kBudget:
      return "--memory_budget";
    case MemoryLimitKind::kOtherMachine:
      return fmt::format("the other machine's memory, {}", bytes);
  }
  return {};
}

}  // namespace shoehorn
