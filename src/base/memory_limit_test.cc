// Trees as /proc and the cgroup file systems show them, recorded in the ways that containers and systemd set
// them up, with the numbers made round.
#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include "base/memory_cgroup.h"
#include "base/process.h"
#include "base/recorded_tree_testing.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMebibyte = int64_t{1} << 20;
const std::string kUnlimited = "9223372036854771712\n";  // version 1: the most that a page counter holds

std::string mebibytes(int64_t count) {
  return std::to_string(count * kMebibyte) + "\n";
}

// A process 4242 on a machine of 64 GiB of which 32 are free, without limits.
Files machine(const std::string& groups, const std::string& mounts) {
  return {{"proc/self/cgroup", groups},
          {"proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" + mounts},
          {"proc/self/stat", "4242 (shoe horn) R 1 4242 4242 0 -1 4194304\n"},
          {"proc/self/status",
           "Name:\tshoehorn\nVmSize:\t  204800 kB\nVmRSS:\t   51200 kB\nVmData:\t  102400 kB\n"},
          {"proc/self/limits",
           "Limit                     Soft Limit           Hard Limit           Units     \n"
           "Max data size             unlimited            unlimited            bytes     \n"
           "Max address space         unlimited            unlimited            bytes     \n"},
          {"proc/sys/vm/overcommit_memory", "0\n"},
          {"proc/meminfo",
           "MemTotal:       67108864 kB\nMemFree:        16777216 kB\nMemAvailable:   33554432 kB\n"
           "CommitLimit:     8388608 kB\nCommitted_AS:    4194304 kB\n"}};
}

constexpr int64_t kMachineAvailable = int64_t{32} << 30;

struct Group {
  std::string limit;
  int64_t usage_mebibytes = 0;
  std::string use_hierarchy = "1\n";
};

void add_version1(Files& files, const std::string& folder, const Group& group) {
  files[folder + "/memory.limit_in_bytes"] = group.limit;
  files[folder + "/memory.usage_in_bytes"] = mebibytes(group.usage_mebibytes);
  files[folder + "/memory.use_hierarchy"] = group.use_hierarchy;
}

void add_version2(Files& files, const std::string& folder, const Group& group) {
  files[folder + "/memory.max"] = group.limit;
  files[folder + "/memory.current"] = mebibytes(group.usage_mebibytes);
}

// The binding limit, its path below the root, and what it leaves.
struct Binding {
  MemoryLimitKind kind;
  std::string path;
  int64_t limit_mebibytes;
  int64_t available_mebibytes;
  bool operator==(const Binding&) const = default;
};

void PrintTo(const Binding& binding, std::ostream* out) {
  *out << memory_limit_name(binding.kind) << " '" << binding.path << "' " << binding.limit_mebibytes
       << " leaves " << binding.available_mebibytes;
}

Binding binding_of(const Files& files) {
  const RecordedTree tree(files);
  const MemoryLimit limit = binding_memory_limit(tree.root());
  return {limit.kind, limit.path.empty() ? "" : limit.path.lexically_relative(tree.root()).string(),
          limit.limit_bytes / kMebibyte, limit.available_bytes / kMebibyte};
}

Binding cgroup(const std::string& path, int64_t limit_mebibytes, int64_t available_mebibytes) {
  return {MemoryLimitKind::kCgroup, path, limit_mebibytes, available_mebibytes};
}

const Binding kMachineBinds = {MemoryLimitKind::kMachine, "", int64_t{64} << 10,
                               kMachineAvailable / kMebibyte};

const std::string kDocker2 =
    "1210 1201 0:29 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw,nsdelegate\n";
const std::string kMemory1 =
    "36 32 0:33 / /sys/fs/cgroup/memory rw,nosuid shared:16 - cgroup cgroup rw,memory\n";

TEST(MemoryLimit, WithoutGroupsTheMachineBinds) {
  EXPECT_EQ(binding_of(machine("", "")), kMachineBinds);
  EXPECT_EQ(binding_of(machine("0::/\n", kDocker2)), kMachineBinds)
      << "the root group of version 2 has no files";
}

// A container with a cgroup namespace of its own: its group is the root of what it sees.
TEST(MemoryLimit, ContainerOfVersion2) {
  Files files = machine("0::/\n", kDocker2);
  add_version2(files, "sys/fs/cgroup", {mebibytes(1024), 300});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory.max", 1024, 724));
}

TEST(MemoryLimit, FileCacheOfVersion2IsRoomUnlessItIsMapped) {
  Files files = machine("0::/\n", kDocker2);
  add_version2(files, "sys/fs/cgroup", {mebibytes(1024), 700});
  files["sys/fs/cgroup/memory.stat"] =
      "anon 209715200\nfile 524288000\nfile_mapped 52428800\ninactive_file " + mebibytes(100) +
      "active_file " + mebibytes(200);
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory.max", 1024, 1024 - 700 + 300 - 50));
}

// Above memory.high a process is held back until it stands still.
TEST(MemoryLimit, HighOfVersion2Binds) {
  Files files = machine("0::/\n", kDocker2);
  add_version2(files, "sys/fs/cgroup", {mebibytes(1024), 100});
  files["sys/fs/cgroup/memory.high"] = mebibytes(512);
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory.high", 512, 412));
}

// A container that sees the host's names, and of its hierarchy only its own group.
TEST(MemoryLimit, ContainerOfVersion1) {
  const std::string mount =
      "733 727 0:33 /docker/ab12 /sys/fs/cgroup/memory ro,nosuid master:16 - cgroup cgroup rw,memory\n";
  Files files = machine("5:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n", mount);
  add_version1(files, "sys/fs/cgroup/memory", {mebibytes(2048), 48});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/memory.limit_in_bytes", 2048, 2000));
  // A group of its own inside.
  files["proc/self/cgroup"] = "4:memory:/docker/ab12/run 7\n";
  add_version1(files, "sys/fs/cgroup/memory/run 7", {mebibytes(1000), 10});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/run 7/memory.limit_in_bytes", 1000, 990));
}

TEST(MemoryLimit, FileCacheOfVersion1IsThatOfTheWholeGroup) {
  Files files = machine("4:memory:/a\n", kMemory1);
  add_version1(files, "sys/fs/cgroup/memory/a", {mebibytes(1000), 900});
  files["sys/fs/cgroup/memory/a/memory.stat"] =
      "inactive_file 1\nactive_file 1\nmapped_file 1\ntotal_inactive_file " + mebibytes(300) +
      "total_active_file " + mebibytes(200) + "total_mapped_file " + mebibytes(60);
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/a/memory.limit_in_bytes", 1000, 100 + 500 - 60));
}

// The tightest of all ancestors binds: less its own users' memory, not its limit alone.
TEST(MemoryLimit, SlicesAreNested) {
  const std::string mount =
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
  Files files = machine("0::/user.slice/user-1000.slice/run-r1.scope\n", mount);
  add_version2(files, "sys/fs/cgroup/user.slice", {mebibytes(8192), 7900});
  add_version2(files, "sys/fs/cgroup/user.slice/user-1000.slice", {mebibytes(4096), 3500});
  add_version2(files, "sys/fs/cgroup/user.slice/user-1000.slice/run-r1.scope", {"max\n", 100});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/user.slice/memory.max", 8192, 292));
  add_version2(files, "sys/fs/cgroup/user.slice", {"max\n", 7900});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/user.slice/user-1000.slice/memory.max", 4096, 596));
}

TEST(MemoryLimit, HierarchyOfVersion1EndsWhereItIsSwitchedOff) {
  Files files = machine("4:memory:/a/b/c\n", kMemory1);
  add_version1(files, "sys/fs/cgroup/memory", {kUnlimited, 2000, "0\n"});
  add_version1(files, "sys/fs/cgroup/memory/a", {mebibytes(100), 90, "0\n"});
  add_version1(files, "sys/fs/cgroup/memory/a/b", {mebibytes(600), 90, "1\n"});
  add_version1(files, "sys/fs/cgroup/memory/a/b/c", {kUnlimited, 20, "1\n"});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", 600, 510));
  files["sys/fs/cgroup/memory/a/memory.use_hierarchy"] = "1\n";
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/a/memory.limit_in_bytes", 100, 10));
}

TEST(MemoryLimit, MemoryAndSwapTogetherBindWhereSwapIsUsed) {
  Files files = machine("4:memory:/a\n", kMemory1);
  add_version1(files, "sys/fs/cgroup/memory/a", {mebibytes(1000), 500});
  files["sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes"] = mebibytes(1000);
  files["sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes"] = mebibytes(900);
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", 1000, 100));
}

// An ancestor above the mount shows in memory.stat alone; a group that is seen is not taken for one.
TEST(MemoryLimit, AncestorAboveTheMountOfVersion1) {
  const std::string mount = "733 727 0:33 /pod/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  Files files = machine("4:memory:/pod/ab/c\n", mount);
  add_version1(files, "sys/fs/cgroup/memory", {kUnlimited, 200});
  add_version1(files, "sys/fs/cgroup/memory/c", {mebibytes(800), 50});
  const std::string stat = "sys/fs/cgroup/memory/c/memory.stat";
  files[stat] = "cache 0\nhierarchical_memory_limit " + mebibytes(500);
  EXPECT_EQ(binding_of(files), cgroup(stat, 500, 300));
  files[stat] = "cache 0\nhierarchical_memory_limit " + mebibytes(800);
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/c/memory.limit_in_bytes", 800, 750));
}

TEST(MemoryLimit, HybridReadsBoth) {
  const std::string mounts = kMemory1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  Files files = machine("4:memory:/a\n0::/b\n", mounts);
  add_version1(files, "sys/fs/cgroup/memory/a", {mebibytes(900), 100});
  add_version2(files, "sys/fs/cgroup/unified/b", {mebibytes(950), 100});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory/a/memory.limit_in_bytes", 900, 800));
  add_version1(files, "sys/fs/cgroup/memory/a", {kUnlimited, 100});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/unified/b/memory.max", 950, 850));
  add_version2(files, "sys/fs/cgroup/unified/b", {"max\n", 100});
  EXPECT_EQ(binding_of(files), kMachineBinds);
}

// Another controller's hierarchy has files of such names in no kernel; its mount is not asked.
TEST(MemoryLimit, OnlyTheHierarchyWithMemoryCounts) {
  Files files = machine("4:memory_extra,cpu:/a\n5:pids:/a\n",
                        "35 32 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
  add_version1(files, "sys/fs/cgroup/pids/a", {mebibytes(1), 0});
  EXPECT_EQ(binding_of(files), kMachineBinds);
}

TEST(MemoryLimit, EscapesInMountPointsAndColonsInGroups) {
  const std::string mount = "36 32 0:33 /my\\040pods /mnt/a\\040b\\134c\\011d rw - cgroup none rw,memory\n";
  Files files = machine("4:memory:/my pods/x:y\n", mount);
  add_version1(files, "mnt/a b\\c\td/x:y", {mebibytes(700), 100});
  EXPECT_EQ(binding_of(files), cgroup("mnt/a b\\c\td/x:y/memory.limit_in_bytes", 700, 600));
}

// The mount's root is above the namespace's: names do not tell where in it the process is, cgroup.procs does.
TEST(MemoryLimit, NamespaceInsideTheMount) {
  const std::string mount = "36 32 0:33 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  Files files = machine("0::/inner\n", mount);
  add_version2(files, "sys/fs/cgroup/pods", {mebibytes(3000), 2500});
  add_version2(files, "sys/fs/cgroup/pods/p1/inner", {mebibytes(1000), 100});
  add_version2(files, "sys/fs/cgroup/pods/p2/inner", {mebibytes(10), 5});
  files["sys/fs/cgroup/cgroup.procs"] = "1\n2\n";
  files["sys/fs/cgroup/pods/p1/inner/cgroup.procs"] = "42\n4242\n";
  files["sys/fs/cgroup/pods/p2/inner/cgroup.procs"] = "424\n42420\n";
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/pods/memory.max", 3000, 500));
  add_version2(files, "sys/fs/cgroup/pods", {"max\n", 2500});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/pods/p1/inner/memory.max", 1000, 900));
}

// A process outside of its namespace's root: the groups of that namespace are not its own.
TEST(MemoryLimit, ProcessOutsideOfTheNamespace) {
  Files files = machine("0::/../sibling\n", kDocker2);
  add_version2(files, "sys/fs/cgroup", {mebibytes(10), 5});
  EXPECT_EQ(binding_of(files), kMachineBinds);
  files["proc/self/mountinfo"] = "36 32 0:33 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  add_version2(files, "sys/fs/cgroup", {"max\n", 5});
  add_version2(files, "sys/fs/cgroup/sibling", {mebibytes(500), 5});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/sibling/memory.max", 500, 495));
}

TEST(MemoryLimit, RemovedGroupHasItsAncestors) {
  Files files = machine("0::/a/gone (deleted)\n", kDocker2);
  add_version2(files, "sys/fs/cgroup/a", {mebibytes(500), 5});
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/a/memory.max", 500, 495));
}

TEST(MemoryLimit, UnlimitedAndGarbageAreNoLimit) {
  for (const char* text : {"max\n", "", "\n", "abc\n", "12abc\n", "-1\n", "0x10\n", "1 2\n",
                           "18446744073709551615\n", "99999999999999999999999999\n"}) {
    Files files = machine("4:memory:/a\n0::/a\n", kMemory1 + kDocker2);
    add_version1(files, "sys/fs/cgroup/memory/a", {text, 1});
    add_version2(files, "sys/fs/cgroup/a", {text, 1});
    EXPECT_EQ(binding_of(files), kMachineBinds) << text;
  }
}

TEST(MemoryLimit, GarbageInProcIsNoLimit) {
  for (const char* text :
       {"", ":", "::\n", "0::\n", "4:memory\n", "no colon at all\n", "0:::::/\n\n\n", "\x01\xff\n"}) {
    Files files = machine(text, kDocker2);
    add_version2(files, "sys/fs/cgroup", {mebibytes(10), 5});
    EXPECT_EQ(binding_of(files), kMachineBinds) << text;
  }
  for (const char* text : {"", "-", " - \n", "1 2 3 - cgroup2\n", "a b c d - cgroup2 x y\n", "\\04\\\n"}) {
    Files files = machine("0::/\n", "");
    files["proc/self/mountinfo"] = text;
    EXPECT_EQ(binding_of(files), kMachineBinds) << text;
  }
}

// Usage and counts that a kernel cannot show must not wrap around.
TEST(MemoryLimit, HostileCountsStayInRange) {
  Files files = machine("0::/\n", kDocker2);
  const std::string huge = std::to_string(std::numeric_limits<int64_t>::max()) + "\n";
  files["sys/fs/cgroup/memory.max"] = mebibytes(100);
  files["sys/fs/cgroup/memory.current"] = huge;
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory.max", 100, 0));
  files["sys/fs/cgroup/memory.stat"] = "inactive_file " + huge + "active_file " + huge + "file_mapped 0\n";
  EXPECT_EQ(binding_of(files), cgroup("sys/fs/cgroup/memory.max", 100, 100));
}

TEST(MemoryLimit, ResourceLimitsCountWhatTheProcessHas) {
  const auto with = [](const char* data, const char* address) {
    Files files = machine("", "");
    files["proc/self/limits"] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             " +
        std::string(data) +
        "            unlimited            bytes     \n"
        "Max address space         " +
        std::string(address) + "           unlimited            bytes     \n";
    return binding_of(files);
  };
  EXPECT_EQ(with("unlimited", "1073741824"), (Binding{MemoryLimitKind::kAddressSpace, "", 1024, 824}));
  EXPECT_EQ(with("1073741824", "unlimited"), (Binding{MemoryLimitKind::kDataSegment, "", 1024, 924}));
  EXPECT_EQ(with("1048576", "unlimited"), (Binding{MemoryLimitKind::kDataSegment, "", 1, 0}));
}

TEST(MemoryLimit, LockedMemoryHasALimitOfItsOwn) {
  const auto lockable = [](const std::string& limit, const std::string& capabilities) {
    Files files = machine("", "");
    files["proc/self/status"] =
        "VmLck:\t    1024 kB\nCapPrm:\tffffffffffffffff\nCapEff:\t" + capabilities + "\n";
    files["proc/self/limits"] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         " +
        limit + "           unlimited            bytes     \n";
    return lockable_memory_bytes(RecordedTree(files).root());
  };
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(lockable("8388608", "0000000000000000"), int64_t{7} << 20);
  EXPECT_EQ(lockable("8388608", "00000000ffffbfff"), int64_t{7} << 20) << "every capability but CAP_IPC_LOCK";
  EXPECT_EQ(lockable("65536", "0000000000000000"), 0) << "more is locked than the limit";
  EXPECT_EQ(lockable("8388608", "0000000000004000"), kUnlimited) << "CAP_IPC_LOCK";
  EXPECT_EQ(lockable("unlimited", "0000000000000000"), kUnlimited);
}

TEST(MemoryLimit, StrictOvercommitIsALimit) {
  Files files = machine("", "");
  files["proc/sys/vm/overcommit_memory"] = "2\n";
  EXPECT_EQ(binding_of(files), (Binding{MemoryLimitKind::kOvercommit, "", 8192, 4096}));
}

TEST(MemoryLimit, NothingKnownIsNoLimit) {
  EXPECT_GT(binding_of({}).available_mebibytes, int64_t{1} << 40);
}

TEST(MemoryLimit, PageTablesAndKernelStacksTakeRoomWhereTheyAreCounted) {
  constexpr int64_t kLeft = int64_t{513} << 20;
  constexpr int64_t kTables = kLeft / 512;
  constexpr int64_t kThreeStacks = 48 << 10;
  for (const MemoryLimitKind kind : {MemoryLimitKind::kMachine, MemoryLimitKind::kCgroup}) {
    EXPECT_EQ(room_for_pages(kind, kLeft), kLeft - kTables);
    EXPECT_EQ(room_for_pages(kind, kLeft + kThreeStacks, 3), kLeft - kTables);
    const int64_t room = room_for_pages(kind, 1000);
    EXPECT_LE(room, 998);
    EXPECT_GE(room, 0);
    EXPECT_EQ(room_for_pages(kind, 0, 3), 0);
    const int64_t most = std::numeric_limits<int64_t>::max();
    EXPECT_EQ(room_for_pages(kind, most), most / 512 * 511);
  }
  for (const MemoryLimitKind kind : {MemoryLimitKind::kOvercommit, MemoryLimitKind::kAddressSpace,
                                     MemoryLimitKind::kDataSegment, MemoryLimitKind::kBudget})
    EXPECT_EQ(room_for_pages(kind, kLeft, 3), kLeft);
}

// A group with little more left than the address space has less room for pages.
TEST(MemoryLimit, TheLeastRoomForPagesBinds) {
  Files files = machine("0::/\n", kDocker2);
  const auto with_group_of = [&](int64_t mebibytes_left) {
    add_version2(files, "sys/fs/cgroup", {.limit = mebibytes(mebibytes_left)});
    files["proc/self/limits"] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max address space         1258291200           unlimited            bytes     \n";
    return binding_of(files).kind;
  };
  EXPECT_EQ(with_group_of(1001), MemoryLimitKind::kCgroup) << "the address space leaves 1000 MiB";
  EXPECT_EQ(with_group_of(1003), MemoryLimitKind::kAddressSpace);
}

TEST(MemoryLimit, OfThisProcess) {
  const MemoryLimit limit = binding_memory_limit();
  EXPECT_GT(limit.available_bytes, 0);
  EXPECT_LE(limit.available_bytes, limit.limit_bytes);
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_FALSE(describe(limit).empty());
}

TEST(MemoryLimit, OtherProcessesAreThoseOfTheGroup) {
  const RecordedTree tree({{"a/cgroup.procs", std::to_string(getppid()) + "\n"},
                           {"a/b/cgroup.procs", std::to_string(getpid()) + "\n999999999\n"},
                           {"c/cgroup.procs", "1\n"}});
  EXPECT_EQ(processes_of_cgroup(tree.root() / "a"), (std::vector<int64_t>{getppid(), getpid(), 999999999}));
  const MemoryLimit limit = {MemoryLimitKind::kCgroup, tree.root() / "a/memory.max", 0, 0};
  for (const ProcessMemory& other : largest_other_processes(9, limit)) EXPECT_EQ(other.pid, getppid());
  const MemoryLimit nobody = {MemoryLimitKind::kCgroup, tree.root() / "a/b/memory.max", 0, 0};
  EXPECT_TRUE(largest_other_processes(9, nobody).empty());
}

}  // namespace
}  // namespace shoehorn
