#include "ranks/main_rank_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/error_testing.h"
#include "ranks/agreement.h"
#include "ranks/thread_ranks_testing.h"

namespace shoehorn {
namespace {

using test_support::run_ranks;
using test_support::thread_ranks;

void work_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// The work takes several times what a rank waits for a message.
TEST(MainRankWork, MayTakeLongerThanTheTimeout) {
  const auto ranks = thread_ranks(3);
  std::atomic<int> works = 0, done = 0;
  run_ranks(ranks, [&](Communicator& own) {
    own.set_timeout_seconds(1);
    work_on_main_rank(own, [&] {
      ++works;
      work_for(3);
      ++done;
    });
    EXPECT_EQ(done, 1) << "rank " << own.rank() << " has waited for it";
    EXPECT_EQ(gather_values(own, own.rank()).back(), 2) << "messages go on";
  });
  EXPECT_EQ(works, 1);
}

// A rank that has stopped says nothing: it is named in time, whether it works or waits.
TEST(MainRankWork, ASilentRankIsNoticed) {
  const auto ranks = thread_ranks(2);
  for (const auto& one : ranks) one->set_timeout_seconds(0.5);
  EXPECT_TRUE(contains(message_of<SystemError>([&] { work_on_main_rank(*ranks[1], [] {}); }),
                       "[ddp_timeout] expected rank 0 to send within 0.5 s"));
  const auto others = thread_ranks(2);
  others[0]->set_timeout_seconds(0.5);
  EXPECT_TRUE(contains(message_of<SystemError>([&] { work_on_main_rank(*others[0], [] { work_for(2); }); }),
                       "[ddp_timeout] expected rank 1 to send within 0.5 s"));
}

// What the work is refused for is said at once, also while nobody answers.
TEST(MainRankWork, AFailureIsTheFirstRanks) {
  const auto ranks = thread_ranks(2);
  ranks[0]->set_timeout_seconds(20);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of<UserError>([&] {
              work_on_main_rank(*ranks[0], [] {
                work_for(1.5);  // the first word is under way
                throw user_error("[file] expected texts, got none");
              });
            }),
            "[file] expected texts, got none");
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 10);
}

}  // namespace
}  // namespace shoehorn
