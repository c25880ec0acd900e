#include "exec/cpu/settled_best.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoehorn::cpu {
namespace {

// Runs that take these times; the last one goes on.
struct Runs {
  std::vector<double> seconds;
  size_t done = 0;
  double operator()() { return seconds[std::min(done++, seconds.size() - 1)]; }
};

TEST(SettledBest, AnIdleMachineTakesTheLeastRuns) {
  Runs runs{{1.00, 1.01, 1.02, 1.00}};
  EXPECT_EQ(settled_best_seconds(4, 100, std::ref(runs)), 1.0);
  EXPECT_EQ(runs.done, 4U);
}

// Six runs that others slowed down, each by another share: the best of them is half the machine's rate.
TEST(SettledBest, ABusyMachineIsTriedAgain) {
  Runs runs{{3.1, 2.0, 2.7, 4.0, 2.2, 2.4, 1.9, 1.0, 3.0, 1.01, 1.0}};
  EXPECT_EQ(settled_best_seconds(6, 100, std::ref(runs)), 1.0);
  EXPECT_EQ(runs.done, 11U);
}

TEST(SettledBest, EndsWithItsTime) {
  Runs runs{{5, 4, 3, 2.5, 2, 1.5, 1.2, 1, 0.9, 0.8, 0.7, 0.6, 0.5}};
  EXPECT_EQ(settled_best_seconds(2, 10, std::ref(runs)), 3);
  EXPECT_EQ(runs.done, 3U);
}

}  // namespace
}  // namespace shoehorn::cpu
