#include "base/thread_stacks.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "base/sanitizer_testing.h"

namespace shoehorn {
namespace {

// In processes of their own, with the environment that the tests below give them.
TEST(ThreadStacksChild, DISABLED_PrintsWhatAThreadHas) {
  size_t bytes = 0;
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) {
    pthread_attr_t own;
    pthread_getattr_np(pthread_self(), &own);
    pthread_attr_getstacksize(&own, &bytes);
    pthread_attr_destroy(&own);
  }
  const StackSize found = thread_stack_size();
  std::printf("a thread has %zu, found %zu of %s\n", bytes, static_cast<size_t>(found.bytes),
              found.variable == nullptr ? "the system" : found.variable);
}

TEST(ThreadStacksChild, DISABLED_StartsATeam) {
  try {
    check_room_for_stacks(4);
    int threads = 0;
#pragma omp parallel num_threads(4) reduction(+ : threads)
    threads += 1;
    check_room_for_stacks(4);
    std::printf("a team of %d is started\n", threads);
  } catch (const UserError& refused) {
    std::printf("%s\n", refused.what());
  }
}

// What such a test prints. `limits`: a shell's command in front of it.
std::string thread_stacks_child(const std::string& test, const std::vector<std::string>& variables,
                                const std::string& limits = "") {
  std::vector<std::string> words = {"/usr/bin/env",     "-u", "OMP_STACKSIZE",      "-u",
                                    "GOMP_STACKSIZE",   "-u", "GTEST_TOTAL_SHARDS", "-u",
                                    "GTEST_SHARD_INDEX"};
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), {"/bin/sh", "-c", limits + "exec \"$@\"", "sh", own_program().string(),
                             "--gtest_filter=ThreadStacksChild.*" + test, "--gtest_also_run_disabled_tests"});
  return run_process(words).output;
}

struct StackSizeCase {
  std::vector<std::string> variables;
  int64_t bytes = 0;  // 0: the system's
  std::string variable = "the system";
};

TEST(ThreadStacks, IsWhatThreadsHave) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  constexpr double kGuardAndAlignment = 64 << 10;
  const std::vector<StackSizeCase> cases = {
      {{}},
      {{"OMP_STACKSIZE=3M"}, 3 * kMebibyte, "OMP_STACKSIZE"},
      {{"OMP_STACKSIZE= 5 m "}, 5 * kMebibyte, "OMP_STACKSIZE"},
      {{"OMP_STACKSIZE=2048"}, 2 * kMebibyte, "OMP_STACKSIZE"},
      {{"OMP_STACKSIZE=1048576b"}, kMebibyte, "OMP_STACKSIZE"},
      {{"OMP_STACKSIZE=1G"}, 1024 * kMebibyte, "OMP_STACKSIZE"},
      {{"GOMP_STACKSIZE=2048K"}, 2 * kMebibyte, "GOMP_STACKSIZE"},
      {{"OMP_STACKSIZE=4M", "GOMP_STACKSIZE=2M"}, 4 * kMebibyte, "OMP_STACKSIZE"},
      {{"OMP_STACKSIZE=4MB", "GOMP_STACKSIZE=2M"}, 2 * kMebibyte, "GOMP_STACKSIZE"},
      {{"OMP_STACKSIZE=99999999999G", "GOMP_STACKSIZE=2M"}, 2 * kMebibyte, "GOMP_STACKSIZE"},
      {{"OMP_STACKSIZE=1B", "GOMP_STACKSIZE=2M"}},
      {{"OMP_STACKSIZE=-3M"}}};
  for (const StackSizeCase& one : cases) {
    const std::string output = thread_stacks_child("PrintsWhatAThreadHas", one.variables);
    const size_t begin = output.find("a thread has ");
    ASSERT_NE(begin, std::string::npos) << output;
    int64_t has = 0, found = 0;
    ASSERT_EQ(std::sscanf(output.c_str() + begin, "a thread has %ld, found %ld", &has, &found), 2);
    EXPECT_NEAR(static_cast<double>(found), static_cast<double>(has), kGuardAndAlignment) << output;
    if (one.bytes > 0) {
      EXPECT_EQ(found, one.bytes);
    }
    EXPECT_NE(output.find(" of " + one.variable + "\n"), std::string::npos) << output;
  }
}

// libgomp would end the process.
TEST(ThreadStacks, ATeamWhoseStacksDoNotFitIsRefused) {
  if (shoehorn::test_support::kIsSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  const auto started = [](const std::string& size) {
    return thread_stacks_child("StartsATeam", {"OMP_STACKSIZE=" + size}, "ulimit -v 3000000; ");
  };
  EXPECT_NE(started("512M").find("a team of 4 is started"), std::string::npos);
  const std::string refused = started("1G");
  EXPECT_NE(refused.find("[memory] expected 3.00 GiB for the stacks of 4 threads"), std::string::npos)
      << refused;
  EXPECT_NE(refused.find("a smaller OMP_STACKSIZE"), std::string::npos) << refused;
}

}  // namespace
}  // namespace shoehorn
