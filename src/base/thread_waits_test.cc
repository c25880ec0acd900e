#include "base/thread_waits.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace shoehorn {
namespace {

// What the child process below prints of itself.
constexpr const char* kFilter = "--gtest_filter=ThreadWaitsChild.DISABLED_PrintsWhatIsInForce";
constexpr const char* kAlsoDisabled = "--gtest_also_run_disabled_tests";

// Runs as a process of its own: its first words are those of main().
TEST(ThreadWaitsChild, DISABLED_PrintsWhatIsInForce) {
  std::string program = own_program().string();
  std::string filter = kFilter;
  std::string also = kAlsoDisabled;
  char* argv[] = {program.data(), filter.data(), also.data(), nullptr};
  const bool was_set = std::getenv("GOMP_SPINCOUNT") != nullptr;
  bound_thread_waits(argv);
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  std::printf("name: %s\nat start: %s\nin force: %s\nleft for others: %s %s\n", name,
              was_set ? "set" : "unset", describe(thread_waits()).c_str(),
              std::getenv("GOMP_SPINCOUNT") == nullptr ? "unset" : "set",
              std::getenv("SHOEHORN_RUNS_ANEW") == nullptr ? "unmarked" : "marked");
}

std::string run_child(const std::vector<std::string>& variables) {
  std::vector<std::string> words = {"/usr/bin/env",     "-u", "GOMP_SPINCOUNT",     "-u",
                                    "OMP_WAIT_POLICY",  "-u", "GTEST_TOTAL_SHARDS", "-u",
                                    "GTEST_SHARD_INDEX"};
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), {own_program().string(), kFilter, kAlsoDisabled});
  return run_process(words).output;
}

TEST(ThreadWaits, ProgramRunsAnewWithABoundedSpin) {
  const std::string output = run_child({});
  EXPECT_NE(output.find("at start: set\n"), std::string::npos) << "when libgomp was loaded: " << output;
  EXPECT_NE(output.find("name: base_test\n"), std::string::npos) << output;
  EXPECT_NE(output.find("in force: spin for 150 µs, then sleep (GOMP_SPINCOUNT="), std::string::npos)
      << output;
  EXPECT_NE(output.find("left for others: unset unmarked\n"), std::string::npos) << output;
}

TEST(ThreadWaits, UserSettingsStay) {
  for (const std::string setting : {"GOMP_SPINCOUNT=5", "OMP_WAIT_POLICY=active"}) {
    const std::string output = run_child({setting});
    EXPECT_NE(output.find("in force: " + setting + ", as the environment says\n"), std::string::npos)
        << output;
  }
  EXPECT_NE(run_child({"GOMP_SPINCOUNT=5"}).find("left for others: set unmarked\n"), std::string::npos);
}

TEST(ThreadWaits, SpinsTakeTheirTime) {
  const int64_t spins = spins_of_bounded_wait();
  // From 1 ns a spin (an old processor) to 1 µs.
  EXPECT_GE(spins, 30);
  EXPECT_LE(spins, 30000);
}

}  // namespace
}  // namespace shoehorn
