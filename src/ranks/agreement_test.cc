#include "ranks/agreement.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/error_testing.h"
#include "base/stop_request.h"
#include "ranks/thread_ranks_testing.h"

namespace shoehorn {
namespace {

using test_support::run_ranks;
using test_support::thread_ranks;

TEST(Agreement, GathersTheValuesOfAllRanksInTheirOrder) {
  for (const int32_t size : {1, 2, 5}) {
    run_ranks(thread_ranks(size), [&](Communicator& own) {
      const std::vector<int64_t> values = gather_values(own, int64_t{100} + own.rank());
      ASSERT_EQ(std::ssize(values), size);
      for (int32_t rank = 0; rank < size; ++rank) EXPECT_EQ(values[static_cast<size_t>(rank)], 100 + rank);
      const std::vector<std::string> texts = gather_texts(own, "host-" + std::to_string(own.rank()), 6);
      for (int32_t rank = 0; rank < size; ++rank)
        EXPECT_EQ(texts[static_cast<size_t>(rank)], "host-" + std::to_string(rank));
    });
  }
}

TEST(Agreement, AllHaveTheTextOfTheFirstRank) {
  const std::string text(1000, 'x');
  run_ranks(thread_ranks(3), [&](Communicator& own) {
    EXPECT_EQ(text_of_main_rank(own, own.is_main() ? text : "of rank " + std::to_string(own.rank())), text);
    EXPECT_EQ(text_of_main_rank(own, own.is_main() ? "" : "more"), "");
  });
}

// Ranks in a row on hosts that have as many each; else the error says which have not.
TEST(Agreement, CountsTheRanksOfEachHost) {
  const auto count = [](const std::vector<std::string>& hosts) {
    std::vector<std::string> found(hosts.size());
    run_ranks(thread_ranks(static_cast<int32_t>(hosts.size())), [&](Communicator& own) {
      const auto rank = static_cast<size_t>(own.rank());
      try {
        found[rank] = std::to_string(ranks_of_each_host(hosts_of_ranks(own, hosts[rank])));
      } catch (const UserError& error) {
        found[rank] = error.what();
      }
    });
    for (const std::string& one : found) EXPECT_EQ(one, found[0]) << "all ranks alike";
    return found[0];
  };
  EXPECT_EQ(count({"a", "a", "b", "b"}), "2");
  EXPECT_EQ(count({"a", "a", "a"}), "3");
  EXPECT_EQ(count({"a", "b"}), "1");
  const std::string uneven = count({"a", "a", "b"});
  EXPECT_TRUE(
      uneven.starts_with("[--zero_group_size 0] expected as many ranks in a row on each host, got 2 on a, "
                         "then 1 on b"))
      << uneven;
  EXPECT_TRUE(count({"a", "b", "a", "b"}).starts_with("[--zero_group_size 0]"));
}

// The last host may have fewer; a number that is given is checked.
TEST(Agreement, KnowsHowManyRanksAHostHas) {
  using Hosts = std::vector<HostRanks>;
  const Hosts even = {{"a", 2}, {"b", 2}}, fewer = {{"a", 2}, {"b", 1}}, more = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(ranks_per_host({{"a", 3}}, {}), 3);
  EXPECT_EQ(ranks_per_host(even, {}), 2);
  EXPECT_EQ(ranks_per_host(fewer, {}), 2);
  EXPECT_EQ(ranks_per_host(more, {}), std::nullopt);
  EXPECT_EQ(ranks_per_host({{"a", 1}, {"b", 1}, {"a", 1}}, {}), std::nullopt) << "not in a row";
  EXPECT_EQ(ranks_per_host(even, 2), 2);
  EXPECT_EQ(ranks_per_host({{"a", 3}}, 4), 4) << "a host with room for another";
  EXPECT_TRUE(contains(refusal_of([&] { ranks_per_host(even, 4); }),
                       "[--ranks_per_host 4] expected so many ranks in a row on each host, got 2 on a"));
  EXPECT_TRUE(contains(refusal_of([&] { ranks_per_host(more, 1); }), "got 2 on b"));
  EXPECT_TRUE(contains(refusal_of([&] { ranks_per_host({{"a", 1}, {"b", 1}, {"a", 1}}, 1); }), "got 1 on a"));
}

// One rank's signal stops all of them, in the same step.
TEST(Agreement, AStopOfOneRankIsAStopOfAll) {
  const auto ranks = thread_ranks(3);
  run_ranks(ranks, [](Communicator& own) { EXPECT_NO_THROW(agree_on_stop(own)); });
  request_stop(SIGINT);
  run_ranks(ranks, [](Communicator& own) {
    try {
      agree_on_stop(own);
      ADD_FAILURE() << "rank " << own.rank() << " goes on";
    } catch (const Stopped& stop) {
      EXPECT_EQ(stop.signal(), SIGINT);
    }
  });
  clear_stop_request();
}

// Ranks that would run different programs fail with the same named error, and none of them waits for the others.
TEST(Agreement, NamesWhatARankHasOtherwise) {
  const auto ranks = thread_ranks(3);
  run_ranks(ranks, [](Communicator& own) {
    own.set_hosts({"a", "b", "c"});
    EXPECT_NO_THROW(check_alike(own, {{"the program", "x"}, {"the arguments", "y"}}));
    try {
      check_alike(own, {{"the program", "x"}, {"the arguments", own.rank() == 2 ? "z" : "y"}});
      ADD_FAILURE() << "rank " << own.rank() << " goes on";
    } catch (const UserError& error) {
      EXPECT_STREQ(
          error.what(),
          "[ranks] expected the arguments to be the same on all ranks, got another on rank 2 on c than on rank "
          "0 on a");
    }
  });
}

}  // namespace
}  // namespace shoehorn
