#include "base/other_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/recorded_tree_testing.h"

namespace shoehorn {
namespace {

TEST(OtherLoad, IsWhatTheProcessorsDidBesidesThisProcess) {
  double busy = 100, own = 5, clock = 1000;
  const OtherLoad load({.busy_seconds = [&] { return std::optional(busy); },
                        .own_seconds = [&] { return own; },
                        .clock_seconds = [&] { return clock; }});
  EXPECT_EQ(load.processors(), std::nullopt) << "no time has passed";
  busy += 7;
  own += 4;
  clock += 2;
  EXPECT_DOUBLE_EQ(*load.processors(), 1.5);
  own += 4;  // counted in steps of another length
  EXPECT_EQ(load.processors(), 0);
}

TEST(OtherLoad, IsSaidWhereItTookSomething) {
  EXPECT_EQ(other_load_text(1.26, 2, 2), "other processes used 1.3 of 2 processors");
  EXPECT_EQ(other_load_text(0.1, 2, 2), "");
  EXPECT_EQ(other_load_text(30, 2, 64), "") << "there are enough for both";
  EXPECT_EQ(other_load_text(63, 2, 64), "other processes used 63.0 of 64 processors");
  EXPECT_EQ(other_load_text(std::nullopt, 2, 2), "");
}

TEST(AllowedBusySeconds, AreOfTheAllowedProcessorsOnly) {
  const RecordedTree tree({{"proc/self/status", "Name:\tx\nCpus_allowed_list:\t0,2\n"},
                           {"proc/stat",
                            "cpu  9 9 9 9 9 9 9 9 0 0\n"
                            "cpu0 1000 20 300 7777 88 4 5 6 50 0\n"
                            "cpu1 9999 9 9 9 9 9 9 9 0 0\n"
                            "cpu2 100 0 0 1 0 0 0 0 0 0\nintr 5\n"}});
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(*allowed_busy_seconds(tree.root()), (1335 + 100) / ticks);
  EXPECT_EQ(allowed_busy_seconds(RecordedTree({}).root()), std::nullopt);
  EXPECT_EQ(allowed_busy_seconds(RecordedTree({{"proc/self/status", "Cpus_allowed_list:\t0-3\n"},
                                               {"proc/stat", "cpu0 1 1 1 1 1 1 1 1\n"}})
                                     .root()),
            std::nullopt);
}

}  // namespace
}  // namespace shoehorn
