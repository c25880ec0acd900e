#include "ranks/shared_processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "ranks/process_ranks_testing.h"

namespace shoehorn {
namespace {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> numbers;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) numbers.push_back(i);
  }
  return numbers;
}

// What each of three ranks counts, where rank r is bound to the processor bound[r]; -1: unbound.
std::vector<std::string> counts_of(const std::vector<int>& bound) {
  return testing::run_in_processes(
      static_cast<int32_t>(bound.size()), [&](std::shared_ptr<Communicator> ranks) {
        const int processor = bound[static_cast<size_t>(ranks->rank())];
        if (processor >= 0) {
          cpu_set_t set;
          CPU_ZERO(&set);
          CPU_SET(processor, &set);
          CHECK(sched_setaffinity(0, sizeof set, &set) == 0, "processor {} cannot be had", processor);
        }
        return std::to_string(ranks_on_own_processors(*ranks));
      });
}

TEST(SharedProcessors, UnboundRanksShareAll) {
  EXPECT_EQ(counts_of({-1, -1, -1}), (std::vector<std::string>{"3", "3", "3"}));
}

TEST(SharedProcessors, BoundRanksHaveTheirOwn) {
  const std::vector<int> allowed = allowed_processors();
  if (allowed.size() < 2) GTEST_SKIP() << "one processor";
  EXPECT_EQ(counts_of({allowed[0], allowed[1], allowed[1]}), (std::vector<std::string>{"1", "2", "2"}));
}

}  // namespace
}  // namespace shoehorn
