#include "ranks/awaited_work.h"

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
TEST(AwaitedWork, MayTakeLongerThanTheTimeout) {
  const auto ranks = thread_ranks(3);
  std::atomic<int> works = 0, done = 0;
  run_ranks(ranks, [&](Communicator& own) {
    own.set_timeout_seconds(1);
    await_work(own, own.is_main(), [&] {
      ++works;
      work_for(3);
      ++done;
    });
    EXPECT_EQ(done, 1) << "rank " << own.rank() << " has waited for it";
    EXPECT_EQ(gather_values(own, own.rank()).back(), 2) << "messages go on";
  });
  EXPECT_EQ(works, 1);
}

// Two of three work, one of them for long, and none returns before both are done.
TEST(AwaitedWork, SeveralRanksWorkAtATime) {
  const auto ranks = thread_ranks(3);
  std::atomic<int> done = 0;
  run_ranks(ranks, [&](Communicator& own) {
    own.set_timeout_seconds(1);
    await_work(own, !own.is_main(), [&] {
      work_for(own.rank() == 1 ? 0 : 3);
      ++done;
    });
    EXPECT_EQ(done, 2) << "rank " << own.rank() << " has waited for both";
    await_work(own, false, [] { ADD_FAILURE() << "nobody works"; });
    EXPECT_EQ(gather_values(own, own.rank()).back(), 2) << "messages go on";
  });
}

// A rank that has stopped says nothing: it is named in time, whether it works or waits.
TEST(AwaitedWork, ASilentRankIsNoticed) {
  const auto ranks = thread_ranks(2);
  for (const auto& one : ranks) one->set_timeout_seconds(0.5);
  EXPECT_TRUE(contains(message_of<SystemError>([&] { await_work(*ranks[1], false, [] {}); }),
                       "[ddp_timeout] expected rank 0 to send within 0.5 s"));
  const auto others = thread_ranks(2);
  others[0]->set_timeout_seconds(0.5);
  EXPECT_TRUE(contains(message_of<SystemError>([&] { await_work(*others[0], true, [] { work_for(2); }); }),
                       "[ddp_timeout] expected rank 1 to send within 0.5 s"));
}

// What the work is refused for is said at once, also while nobody answers.
TEST(AwaitedWork, AFailureIsOfWhoWorks) {
  const auto ranks = thread_ranks(2);
  ranks[0]->set_timeout_seconds(20);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of<UserError>([&] {
              await_work(*ranks[0], true, [] {
                work_for(1.5);  // the first word is under way
                throw user_error("[file] expected texts, got none");
              });
            }),
            "[file] expected texts, got none");
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 10);
}

}  // namespace
}  // namespace shoehorn
