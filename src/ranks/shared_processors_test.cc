#include "ranks/shared_processors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <set>

#include "base/processors.h"
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
  return test_support::run_in_processes(
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

// What each rank is bound to, and how many it shares that with behind it.
std::vector<std::string> shares_of(int32_t ranks, int64_t least) {
  return test_support::run_in_processes(ranks, [&](std::shared_ptr<Communicator> communicator) {
    const std::string all = allowed_processor_list();
    const std::string share = bind_to_share(*communicator, least);
    CHECK(first_processor_list() == all, "from {}, not {}", first_processor_list(), all);
    CHECK(share.empty() || share == allowed_processor_list(), "bound to {}", allowed_processor_list());
    return fmt::format("{}:{}", share, ranks_on_own_processors(*communicator));
  });
}

TEST(BoundRanks, HaveSharesThatAreAllOfTheProcessors) {
  const std::vector<int> allowed = allowed_processors();
  if (allowed.size() < 2) GTEST_SKIP() << "one processor";
  std::set<int64_t> bound;
  size_t shared = 0;
  for (const std::string& text : shares_of(2, 1)) {
    const std::string share = text.substr(0, text.find(':'));
    if (share.empty()) GTEST_SKIP() << "no hwloc";
    EXPECT_EQ(text, share + ":1");
    const std::vector<int64_t> processors = parse_number_list(share);
    bound.insert(processors.begin(), processors.end());
    shared += processors.size();
  }
  EXPECT_EQ(bound, (std::set<int64_t>(allowed.begin(), allowed.end())));
  EXPECT_EQ(shared, bound.size()) << "none twice";
}

TEST(BoundRanks, StayWhereTheyWereIfThereAreTooFew) {
  const size_t allowed = allowed_processors().size();
  EXPECT_EQ(shares_of(2, static_cast<int64_t>(allowed)), (std::vector<std::string>{":2", ":2"}))
      << "threads have no room in a share";
  if (allowed <= 8) {
    for (const std::string& text : shares_of(9, 1)) EXPECT_EQ(text, ":9");
  }
}

}  // namespace
}  // namespace shoehorn
