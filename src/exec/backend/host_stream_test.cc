#include "exec/backend/host_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace shoehorn {
namespace {

using Work = std::function<void()>;

TEST(HostStream, WithoutWorkBehindIsDoneAtOnce) {
  HostStream stream;
  HostEvent event;
  event.wait();  // was never recorded
  stream.record(event);
  stream.wait(event);
}

// In order, and an event is reached when all work in front of it is done.
TEST(HostStream, DoesWorkBehindInOrder) {
  HostStream computing, behind;
  std::vector<int> done;
  std::atomic<size_t> count = 0;
  std::vector<Work> works;
  for (int i = 0; i < 40; ++i) {
    works.emplace_back([&, i] {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      done.push_back(i);
      ++count;
    });
  }
  for (size_t i = 0; i < works.size(); ++i) behind.prepare_behind([] {});
  for (int run = 0; run < 3; ++run) {
    done.clear();
    HostEvent half, end;
    for (size_t i = 0; i < works.size(); ++i) {
      behind.run_behind(works[i]);
      if (i == 19) behind.record(half);
    }
    behind.record(end);
    computing.wait(half);
    EXPECT_GE(count, 20U);
    computing.wait(end);
    ASSERT_EQ(done.size(), 40U);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  }
}

// A mark has the time at which the work in front of it was done, not that at which it was issued.
TEST(HostStream, MarksWhenWorkIsDone) {
  HostStream computing, behind;
  const Work work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  for (int i = 0; i < 2; ++i) behind.prepare_behind([] {});
  double issued = 0, begin = 0, middle = 0, end = 0;
  behind.mark(begin);
  behind.run_behind(work);
  behind.mark(middle);
  behind.run_behind(work);
  behind.mark(end);
  computing.mark(issued);
  HostEvent done;
  behind.record(done);
  done.wait();
  EXPECT_GT(issued, 0);
  EXPECT_GE(middle - begin, 0.002);
  EXPECT_GE(end - middle, 0.002);
}

// The caller goes on meanwhile.
TEST(HostStream, RunsBesideItsCaller) {
  HostStream behind;
  behind.prepare_behind([] {});
  std::atomic<bool> goes_on = false;
  const Work work = [&] {
    while (!goes_on) std::this_thread::yield();
  };
  HostEvent end;
  behind.run_behind(work);
  behind.record(end);
  goes_on = true;  // would never be reached
  end.wait();
}

// Who waits gets the error, and nothing behind it is done.
TEST(HostStream, ThrowsWhereItIsWaitedFor) {
  HostStream behind;
  bool is_done = false;
  const Work failing = [] { throw std::runtime_error("the link is cut"); };
  const Work next = [&] { is_done = true; };
  for (int i = 0; i < 2; ++i) behind.prepare_behind([] {});
  HostEvent end;
  behind.run_behind(failing);
  behind.run_behind(next);
  behind.record(end);
  EXPECT_THROW(end.wait(), std::runtime_error);
  EXPECT_FALSE(is_done);
}

// A stream that is destroyed does not wait for what never ends.
TEST(HostStream, CancelsWorkUnderWay) {
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> has_begun = false;
  const Work work = [&] {
    has_begun = true;
    while (!is_cancelled) std::this_thread::yield();
  };
  {
    HostStream behind;
    behind.prepare_behind([&] { is_cancelled = true; });
    behind.run_behind(work);
    while (!has_begun) std::this_thread::yield();
  }
  EXPECT_TRUE(is_cancelled);
}

}  // namespace
}  // namespace shoehorn
