#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "base/recorded_tree_testing.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// A machine of sixteen processors, all of them allowed.
Files sixteen_processors(const std::string& groups, const std::string& mounts) {
  return {{"proc/self/cgroup", groups},
          {"proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" + mounts},
          {"proc/self/stat", "4242 (shoe horn) R 1 4242 4242 0 -1 4194304\n"},
          {"proc/self/status", "Name:\tshoehorn\nCpus_allowed:\tffff\nCpus_allowed_list:\t0-15\n"},
          {"sys/devices/system/cpu/online", "0-15\n"}};
}

const std::string kVersion2 = "31 22 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const std::string kVersion1 = "33 22 0:29 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n";

Processors processors_of(const Files& files) {
  const RecordedTree tree(files);
  Processors found = processors(tree.root());
  if (found.quota) found.quota->path = found.quota->path.lexically_relative(tree.root());
  return found;
}

TEST(Processors, MachineWithoutLimits) {
  const Processors all = processors_of(sixteen_processors("0::/user.slice\n", kVersion2));
  EXPECT_EQ(all.machine, 16);
  EXPECT_EQ(all.allowed, 16);
  EXPECT_FALSE(all.quota);
  EXPECT_EQ(all.usable(), 16);
}

TEST(Processors, AffinityCountsOnlyProcessorsThatAreOn) {
  Files files = sixteen_processors("0::/\n", kVersion2);
  files["proc/self/status"] = "Cpus_allowed_list:\t2-3,14-63\n";
  const Processors some = processors_of(files);
  EXPECT_EQ(some.machine, 16);
  EXPECT_EQ(some.allowed, 4);
  EXPECT_EQ(some.usable(), 4);
}

TEST(Processors, QuotaOfVersion2IsRoundedUp) {
  Files files = sixteen_processors("0::/user.slice/job\n", kVersion2);
  files["sys/fs/cgroup/user.slice/job/cpu.max"] = "250000 100000\n";
  const Processors some = processors_of(files);
  ASSERT_TRUE(some.quota);
  EXPECT_EQ(some.quota->processors, 2.5);
  EXPECT_EQ(some.quota->path, "sys/fs/cgroup/user.slice/job/cpu.max");
  EXPECT_EQ(some.usable(), 3);
  files["sys/fs/cgroup/user.slice/job/cpu.max"] = "20000 100000\n";
  EXPECT_EQ(processors_of(files).usable(), 1);
  files["sys/fs/cgroup/user.slice/job/cpu.max"] = "max 100000\n";
  EXPECT_EQ(processors_of(files).usable(), 16);
  files["sys/fs/cgroup/user.slice/job/cpu.max"] = "3200000 100000\n";
  EXPECT_EQ(processors_of(files).usable(), 16) << "more than there are";
}

TEST(Processors, SmallestQuotaOfNestedGroupsCounts) {
  Files files = sixteen_processors("0::/a/b/c\n", kVersion2);
  files["sys/fs/cgroup/a/cpu.max"] = "400000 50000\n";     // 8
  files["sys/fs/cgroup/a/b/cpu.max"] = "300000 100000\n";  // 3
  files["sys/fs/cgroup/a/b/c/cpu.max"] = "max 100000\n";
  EXPECT_EQ(processors_of(files).usable(), 3);
  files["sys/fs/cgroup/a/b/c/cpu.max"] = "600000 100000\n";
  EXPECT_EQ(processors_of(files).usable(), 3);
  files["sys/fs/cgroup/a/cpu.max"] = "100000 100000\n";
  EXPECT_EQ(processors_of(files).quota->path, "sys/fs/cgroup/a/cpu.max");
}

TEST(Processors, QuotaOfVersion1) {
  // As Docker shows it: the group is mounted as the root of what is visible.
  Files files =
      sixteen_processors("4:cpu,cpuacct:/docker/ab12\n3:memory:/docker/ab12\n",
                         "33 22 0:29 /docker/ab12 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  files["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "150000\n";
  files["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n";
  EXPECT_EQ(processors_of(files).usable(), 2);
  EXPECT_EQ(processors_of(files).quota->processors, 1.5);
  files["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n";
  EXPECT_FALSE(processors_of(files).quota);
  files["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "150000\n";
  files.erase("sys/fs/cgroup/cpu/cpu.cfs_period_us");
  EXPECT_FALSE(processors_of(files).quota);
}

TEST(Processors, AncestorsOfVersion1BesideVersion2) {
  Files files = sixteen_processors(
      "4:cpu:/a/b\n0::/x\n", kVersion1 + "34 22 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  files["sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"] = "500000\n";
  files["sys/fs/cgroup/cpu/a/cpu.cfs_period_us"] = "100000\n";
  files["sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us"] = "-1\n";
  files["sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us"] = "100000\n";
  EXPECT_EQ(processors_of(files).usable(), 5);
}

TEST(Processors, WhatCannotBeReadSetsNoLimit) {
  const Processors none = processors_of({});
  EXPECT_EQ(none.machine, 1);
  EXPECT_EQ(none.usable(), 1);
  Files files = sixteen_processors("0::/\n", kVersion2);
  for (const char* text : {"", "many\n", "100000 0\n", "-5 100000\n", "0 100000\n"}) {
    files["sys/fs/cgroup/cpu.max"] = text;
    EXPECT_EQ(processors_of(files).usable(), 16) << text;
  }
  EXPECT_TRUE(parse_number_list("0-").empty());
  EXPECT_TRUE(parse_number_list("3-1").empty());
  EXPECT_TRUE(parse_number_list("0-99999999999").empty());
  EXPECT_EQ(parse_number_list("0,2-3"), (std::vector<int64_t>{0, 2, 3}));
}

TEST(Processors, FollowTheRealAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(processors().allowed, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Processors some = processors();
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(some.allowed, 1);
  EXPECT_GE(some.machine, some.allowed);
}

// A group of the real hierarchy, where the test may make one: version 1 or 2.
class RealGroup {
 public:
  RealGroup() {
    const std::string name = "shoehorn-test-" + std::to_string(getpid());
    for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      folder_ = fs::path(mount) / name;
      std::error_code error;
      if (!fs::create_directory(folder_, error)) continue;
      if (fs::exists(folder_ / "cpu.cfs_quota_us")) {
        std::ofstream(folder_ / "cpu.cfs_quota_us") << 150000 << std::flush;
        return;
      }
      if (fs::exists(folder_ / "cpu.max")) {
        std::ofstream(folder_ / "cpu.max") << "150000 100000" << std::flush;
        return;
      }
      rmdir(folder_.c_str());
    }
    folder_.clear();
  }
  ~RealGroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  RealGroup(const RealGroup&) = delete;
  RealGroup& operator=(const RealGroup&) = delete;
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

TEST(Processors, FollowARealQuota) {
  const RealGroup group;
  if (group.folder().empty()) GTEST_SKIP() << "no cgroup can be made here";
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream procs(group.folder() / "cgroup.procs");
    procs << getpid() << std::flush;
    if (!procs) _exit(3);
    const Processors some = processors();
    _exit(some.quota && std::abs(some.quota->processors - 1.5) < 1e-9 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "no process can be moved here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

std::optional<MachineLoad> load_of(const Files& files) {
  return machine_load(RecordedTree(files).root());
}

TEST(Processors, Load) {
  const std::optional<MachineLoad> load = load_of({{"proc/loadavg", "3.54 2.31 2.62 4/118 24081\n"}});
  ASSERT_TRUE(load);
  EXPECT_EQ(load->average, 3.54);
  EXPECT_EQ(load->running, 4);
  EXPECT_FALSE(load_of({{"proc/loadavg", "3.54 2.31\n"}}));
  EXPECT_FALSE(load_of({}));
}

TEST(Processors, UseGrowsWithWork) {
  const double before = processor_use().cpu_seconds;
  const auto start = std::chrono::steady_clock::now();
  while (processor_use().cpu_seconds - before < 0.02) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  }
  EXPECT_GE(processor_use().involuntary_switches, 0);
}

}  // namespace
}  // namespace shoehorn
