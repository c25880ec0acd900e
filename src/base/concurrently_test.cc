#include "base/concurrently.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shoehorn {
namespace {

TEST(RunConcurrently, EachPieceIsDoneOnce) {
  for (const size_t threads : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> done(40);
    run_concurrently(done.size(), threads, [&](size_t i) { ++done[i]; });
    for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1) << threads;
  }
  run_concurrently(0, 4, [](size_t) { FAIL(); });
}

TEST(RunConcurrently, PiecesRunBesideEachOther) {
  std::latch all_began(3);
  std::atomic<int> prepared = 0;
  run_concurrently(3, 3, [&](size_t) { all_began.arrive_and_wait(); }, [&] { ++prepared; });
  EXPECT_EQ(prepared, 2);
}

TEST(RunConcurrently, OneThreadIsTheCallers) {
  std::vector<size_t> order;
  const std::thread::id caller = std::this_thread::get_id();
  run_concurrently(3, 1, [&](size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2}));
}

TEST(RunConcurrently, TheErrorOfTheFirstPieceIsThrownAndNoPieceStartsBehindIt) {
  std::latch both_began(2);
  std::atomic<int> begun = 0;
  try {
    run_concurrently(100, 2, [&](size_t i) {
      ++begun;
      if (i < 2) both_began.arrive_and_wait();
      throw std::runtime_error(std::to_string(i));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace shoehorn
