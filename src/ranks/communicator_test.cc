#include "ranks/communicator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/stop_request.h"
#include "ranks/thread_ranks_testing.h"

namespace shoehorn {
namespace {

using test_support::run_ranks;
using test_support::thread_ranks;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "none";
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Messages between two ranks arrive in their order, and one may be empty.
TEST(Communicator, SendsToOneRankWhileItReceivesFromAnother) {
  const auto ranks = thread_ranks(3);
  run_ranks(ranks, [](Communicator& own) {
    for (int32_t round = 0; round < 50; ++round) {
      const std::vector<int32_t> sent = {own.rank(), round};
      std::vector<int32_t> received(2);
      own.exchange(own.next(), std::as_bytes(std::span(sent)), own.before(),
                   std::as_writable_bytes(std::span(received)));
      EXPECT_EQ(received, (std::vector<int32_t>{own.before(), round}));
    }
    own.exchange(own.next(), {}, own.before(), {});
    EXPECT_EQ(own.sent_bytes(), 50 * 8);
  });
}

// A message takes as long as it would over the link, and what only receives waits for nothing but that.
TEST(Communicator, TakesTheTimeOfASlowerLink) {
  const auto ranks = thread_ranks(2);
  run_ranks(ranks, [](Communicator& own) {
    own.set_pace({.latency_seconds = 0.02, .bytes_per_second = 1e5});
    const std::vector<std::byte> sent(2000);
    std::vector<std::byte> received(2000);
    const bool sends = own.is_main();
    const double seconds = seconds_of([&] {
      for (int round = 0; round < 3; ++round)
        own.exchange(1, sends ? std::span(sent) : std::span<const std::byte>(), 0,
                     sends ? std::span<std::byte>() : std::span(received));
    });
    EXPECT_GE(seconds, sends ? 3 * (0.02 + 0.02) : 0);
    EXPECT_EQ(received, sent);
  });
}

// Who does not send in time is named, with its host.
TEST(Communicator, NamesTheRankThatItWaitedForTooLong) {
  const auto ranks = thread_ranks(2);
  ranks[0]->set_hosts({"host-a", "host-b"});
  ranks[0]->set_timeout_seconds(0.2);
  std::string error;
  const double seconds = seconds_of([&] {
    error = error_of([&] {
      std::byte received{};
      ranks[0]->exchange(1, {}, 1, {&received, 1});
    });
  });
  EXPECT_EQ(
      error,
      "[ddp_timeout] expected rank 1 on host-b to send within 0.2 s, got nothing at rank 0 on host-a; it was "
      "stopped, or its link is cut");
  EXPECT_GE(seconds, 0.2);
  EXPECT_LT(seconds, 5);
}

// Behind a silent rank all others wait for each other, and name it and not each other. The first of them has the word.
TEST(Communicator, AllNameTheSilentRank) {
  const auto ranks = thread_ranks(4);
  const auto received_from_before = [&](int32_t rank) {
    std::byte received{};
    ranks[static_cast<size_t>(rank)]->exchange(ranks[static_cast<size_t>(rank)]->next(), {},
                                               ranks[static_cast<size_t>(rank)]->before(), {&received, 1});
  };
  for (const auto& one : ranks) {
    one->set_hosts({"a", "b", "c", "d"});
    one->set_timeout_seconds(one->rank() == 0 ? 0.5 : 30);  // whose time is up first takes the others along
  }
  std::vector<std::thread> others;
  std::atomic<int> alike = 0;
  for (const int32_t rank : {1, 3}) {
    others.emplace_back([&, rank] {
      const std::string error = error_of([&] { received_from_before(rank); });
      alike += error.find("expected rank 2 on c to send within 30 s") == std::string::npos ? 0 : 1;
    });
  }
  const double seconds = seconds_of([&] {
    EXPECT_EQ(
        error_of([&] { received_from_before(0); }),
        "[ddp_timeout] expected rank 2 on c to send within 0.5 s, got nothing at rank 0 on a; it was stopped, "
        "or its link is cut");
  });
  EXPECT_LT(seconds, 5);
  request_stop(SIGTERM);  // the launcher
  for (std::thread& other : others) other.join();
  clear_stop_request();
  EXPECT_EQ(alike, 2);
}

// Ranks that wait for each other are all there; each has what it waits for.
TEST(Communicator, WhereNoneIsSilentTheOneThatItWaitedForIsNamed) {
  const auto ranks = thread_ranks(2);
  for (const auto& one : ranks) one->set_timeout_seconds(0.3);
  std::thread other([&] {
    std::byte received{};
    EXPECT_NE(error_of([&] { ranks[1]->exchange(0, {}, 0, {&received, 1}); }).find("expected rank 0 to send"),
              std::string::npos);
  });
  std::byte received{};
  EXPECT_NE(error_of([&] { ranks[0]->exchange(1, {}, 1, {&received, 1}); }).find("expected rank 1 to send"),
            std::string::npos);
  request_stop(SIGTERM);
  other.join();
  clear_stop_request();
}

// A rank that was only late is waited for, whoever has asked meanwhile.
TEST(Communicator, AnAnswerEndsNoWait) {
  const auto ranks = thread_ranks(3);
  for (const auto& one : ranks) one->set_timeout_seconds(1);
  run_ranks(ranks, [](Communicator& own) {
    if (own.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(850));
    for (int round = 0; round < 3; ++round) {
      const std::byte sent{};
      std::byte received{};
      own.exchange(own.next(), {&sent, 1}, own.before(), {&received, 1});
    }
  });
}

// Behind a request to stop the others are given a few seconds, and not the whole timeout.
TEST(Communicator, TakesARankForGoneSoonerBehindAStop) {
  const auto ranks = thread_ranks(2);
  request_stop(SIGTERM);
  std::string error;
  const double seconds = seconds_of([&] {
    error = error_of([&] {
      std::byte received{};
      ranks[1]->exchange(0, {}, 0, {&received, 1});
    });
  });
  clear_stop_request();
  EXPECT_EQ(error,
            "[ranks] expected rank 0 to send before the run is stopped by SIGTERM, got nothing at rank 1");
  EXPECT_GE(seconds, kStopPatienceSeconds);
  EXPECT_LT(seconds, kStopPatienceSeconds + 4);
}

// A rank of this host whose process has ended is not waited for, be its exit code taken or not.
TEST(Communicator, NoticesThatAProcessIsGone) {
  for (const bool is_taken : {false, true}) {
    const auto ranks = thread_ranks(2);
    ranks[0]->set_timeout_seconds(10);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | (is_taken ? 0 : WNOWAIT)), 0);
    ranks[0]->set_local_processes({getpid(), child});
    std::byte received{};
    std::string error;
    EXPECT_LT(seconds_of([&] { error = error_of([&] { ranks[0]->exchange(1, {}, 1, {&received, 1}); }); }),
              5);
    EXPECT_EQ(error, "[ranks] expected rank 1 to send, got its end at rank 0") << "taken: " << is_taken;
    if (!is_taken) waitpid(child, nullptr, 0);
  }
}

// What each rank is left to say, by rank. Those in `failing` fail at once, the others wait for a message; the launcher ends all
// soon.
std::vector<std::string> said_behind_failures(const std::set<int32_t>& failing) {
  constexpr double kListeningSeconds = 0.5;
  const auto ranks = thread_ranks(4);
  std::vector<std::string> said(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      Communicator& own = *ranks[i];
      std::byte received{};
      std::string error = "its own";
      if (!failing.contains(own.rank()))
        error = error_of([&] { own.exchange(own.next(), {}, own.before(), {&received, 1}); });
      said[i] = (own.may_say_its_failure(kListeningSeconds) ? "says " : "keeps ") + error;
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  request_stop(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  clear_stop_request();
  return said;
}

// Who waits for a rank that fails hears of it, and leaves the word to that one.
TEST(Communicator, AFailureIsSaidByTheRankThatFails) {
  const std::string heard = "keeps [ranks] expected rank 2 to go on, got its failure at rank ";
  EXPECT_EQ(said_behind_failures({2}),
            (std::vector<std::string>{heard + "0", heard + "1", "says its own", heard + "3"}));
}

// Whether the last of three ranks may say its failure, for which it listens so long. Rank 1 waits for a message; the first rank
// fails too, after `seconds_of_first`, or waits if that is none. The launcher ends all after a second.
bool last_says_its_failure(double listening_seconds, std::optional<double> seconds_of_first) {
  const auto ranks = thread_ranks(3);
  std::vector<std::thread> others;
  for (const size_t rank : {0, 1}) {
    others.emplace_back([&, rank] {
      std::byte received{};
      if (rank == 0 && seconds_of_first) {
        std::this_thread::sleep_for(std::chrono::duration<double>(*seconds_of_first));
      } else {
        error_of(
            [&] { ranks[rank]->exchange(ranks[rank]->next(), {}, ranks[rank]->before(), {&received, 1}); });
      }
      ranks[rank]->may_say_its_failure(0);
    });
  }
  std::thread launcher([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    request_stop(SIGTERM);
  });
  const bool says = ranks[2]->may_say_its_failure(listening_seconds);
  launcher.join();
  for (std::thread& other : others) other.join();
  clear_stop_request();
  return says;
}

// A rank that waits in an exchange has no mistake of its own to come, and is not listened for.
TEST(Communicator, AFailureIsSaidOnceAllOthersWaitForIt) {
  EXPECT_TRUE(last_says_its_failure(30, std::nullopt));
}

// The first rank, as long as it does not wait, may make the same mistake.
TEST(Communicator, AFailureIsLeftToTheFirstRankWhileThatIsBusy) {
  EXPECT_FALSE(last_says_its_failure(30, 0.3));
  EXPECT_TRUE(last_says_its_failure(0.3, 0.6));
}

// Of those that fail alike the first says it.
TEST(Communicator, AFailureOfSeveralIsSaidOnce) {
  EXPECT_EQ(said_behind_failures({0, 1, 2, 3}),
            (std::vector<std::string>{"says its own", "keeps its own", "keeps its own", "keeps its own"}));
  const std::vector<std::string> said = said_behind_failures({1, 3});
  EXPECT_EQ(said[1], "says its own");
  EXPECT_EQ(said[3], "keeps its own");
}

// One that fails when another has said why keeps quiet, were it the first.
TEST(Communicator, AFailureIsNotSaidBehindAnother) {
  const auto ranks = thread_ranks(2);
  EXPECT_TRUE(ranks[1]->may_say_its_failure(0));
  std::thread launcher([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    request_stop(SIGTERM);
  });
  EXPECT_FALSE(ranks[0]->may_say_its_failure(0));
  launcher.join();
  clear_stop_request();
}

// Another thread ends a wait when this rank has failed.
TEST(Communicator, GivesUp) {
  const auto ranks = thread_ranks(2);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ranks[0]->give_up();
  });
  std::byte received{};
  EXPECT_EQ(error_of([&] { ranks[0]->exchange(1, {}, 1, {&received, 1}); }),
            "[ranks] expected rank 0 to go on, got its failure");
  other.join();
}

// A rank that waits leaves the processor to others.
TEST(Communicator, SleepsWhileItWaits) {
  const auto ranks = thread_ranks(2);
  ranks[0]->set_timeout_seconds(1);
  const std::clock_t before = std::clock();
  error_of([&] {
    std::byte received{};
    ranks[0]->exchange(1, {}, 1, {&received, 1});
  });
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.3);
  EXPECT_GE(ranks[0]->waited_seconds(), 0);
}

}  // namespace
}  // namespace shoehorn
