#include "exec/backend/thread_count.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/child_process.h"

namespace shoehorn {
namespace {

ThreadCount of(int threads, ThreadSource source, int64_t machine) {
  ThreadCount count{threads, source, {}};
  count.processors.machine = machine;
  count.processors.allowed = machine;
  return count;
}

TEST(ThreadCount, Text) {
  ThreadCount quota = of(2, ThreadSource::kQuota, 16);
  quota.processors.quota = CpuQuota{2.0, "/sys/fs/cgroup/cpu.max"};
  EXPECT_EQ(describe(quota), "2 threads of 16 processors (cgroup quota 2.0)");
  EXPECT_EQ(describe(of(2, ThreadSource::kMachine, 2)), "2 threads of 2 processors");
  EXPECT_EQ(describe(of(1, ThreadSource::kArgument, 1)), "1 thread of 1 processor (--num_threads)");
  EXPECT_EQ(describe(of(3, ThreadSource::kEnvironment, 8)), "3 threads of 8 processors (OMP_NUM_THREADS)");
  EXPECT_EQ(describe(of(4, ThreadSource::kAffinity, 8)), "4 threads of 8 processors (CPU affinity)");
  EXPECT_EQ(describe(of(4, ThreadSource::kProgram, 8)), "4 threads of 8 processors (omp_set_num_threads)");
  ThreadCount shared = of(1, ThreadSource::kRanks, 2);
  shared.local_ranks = 2;
  EXPECT_EQ(describe(shared), "1 thread of 2 processors (2 ranks share them)");
  EXPECT_EQ(describe(of(9, ThreadSource::kArgument, 8)),
            "9 threads of 8 processors (--num_threads); more threads than processors make steps slower");
}

TEST(ThreadCount, ArgumentComesFirstAndTheProgramMayChangeIt) {
  const int before = omp_get_max_threads();
  EXPECT_EQ(use_threads(3).threads, 3);
  EXPECT_EQ(omp_get_max_threads(), 3);
  EXPECT_EQ(thread_count().source, ThreadSource::kArgument);
  omp_set_num_threads(2);
  EXPECT_EQ(thread_count().threads, 2);
  EXPECT_EQ(thread_count().source, ThreadSource::kProgram);
  use_threads(before);
}

// In a process of its own, with the environment that the test below gives it.
TEST(ThreadCountChild, DISABLED_PrintsWhatIsInForce) {
  const char* given = std::getenv("SHOEHORN_TEST_THREADS");
  const char* ranks = std::getenv("SHOEHORN_TEST_RANKS");
  use_threads(given == nullptr ? std::nullopt : std::optional<int64_t>(std::atoi(given)),
              ranks == nullptr ? 1 : std::atoi(ranks));
  std::printf("in force: %s\n", describe(thread_count()).c_str());
}

std::string run_child(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"/usr/bin/env",       "-u", "OMP_NUM_THREADS",  "-u",
                                  "GTEST_TOTAL_SHARDS", "-u", "GTEST_SHARD_INDEX"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {own_program().string(), "--gtest_filter=ThreadCountChild.*",
                         "--gtest_also_run_disabled_tests"});
  return run_process(all).output;
}

TEST(ThreadCount, EnvironmentComesBeforeProcessors) {
  EXPECT_NE(run_child({"OMP_NUM_THREADS=3"}).find("in force: 3 threads of "), std::string::npos);
  EXPECT_NE(run_child({"OMP_NUM_THREADS=3"}).find("(OMP_NUM_THREADS)"), std::string::npos);
  EXPECT_NE(run_child({"OMP_NUM_THREADS=3", "SHOEHORN_TEST_THREADS=5"}).find("in force: 5 threads of "),
            std::string::npos);
  EXPECT_NE(run_child({"OMP_THREAD_LIMIT=1", "SHOEHORN_TEST_THREADS=5"}).find("in force: 1 thread of "),
            std::string::npos);
}

TEST(ThreadCount, RanksOfAHostShareIt) {
  const std::string output = run_child({"SHOEHORN_TEST_RANKS=2"});
  const int64_t share = std::max<int64_t>(1, processors().usable() / 2);
  EXPECT_NE(output.find("in force: " + std::to_string(share) + " thread"), std::string::npos) << output;
  EXPECT_NE(output.find("(2 ranks share them)"), std::string::npos) << output;
  EXPECT_NE(run_child({"OMP_NUM_THREADS=3", "SHOEHORN_TEST_RANKS=2"}).find("in force: 3 threads of "),
            std::string::npos);
}

TEST(ThreadCount, AffinityCounts) {
  const std::string output = run_child({"taskset", "-c", "0"});
  EXPECT_NE(output.find("in force: 1 thread of "), std::string::npos) << output;
  if (!std::filesystem::exists("/sys/devices/system/cpu"))
    GTEST_SKIP() << "no /sys: the processors of the machine are not known";
  EXPECT_EQ(output.find("(CPU affinity)") != std::string::npos, processors().machine > 1) << output;
}

}  // namespace
}  // namespace shoehorn
