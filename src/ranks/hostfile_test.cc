#include "ranks/hostfile.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

TEST(Hostfile, HasTheSlotsOfAllHosts) {
  EXPECT_EQ(slots_of_hosts("a slots=4\nb slots=2\n", "hosts"), 6);
  EXPECT_EQ(slots_of_hosts("# two of them\n\n  10.0.0.1  slots = 8 max_slots=9 # big\na slots=1\na slots=1",
                           "hosts"),
            10);
  EXPECT_EQ(slots_of_hosts("a max_slots=4 slots=0\nb slots=3\n", "hosts"), 3);
}

TEST(Hostfile, IsAWordForMpich) {
  EXPECT_EQ(hosts_with_slots("# two\n10.0.0.1 slots = 8 max_slots=9\na\nb slots=0\nc slots=1", "hosts"),
            "10.0.0.1:8,a,c:1");
  EXPECT_EQ(refusal_of([] { hosts_with_slots("# a\n", "hosts"); }),
            "[--hostfile hosts] expected slots of hosts, NAME slots=N a line, got none");
}

TEST(Hostfile, WithoutSlotsIsRefused) {
  const auto refusal = [](const std::string& text) {
    return refusal_of([&] { slots_of_hosts(text, "hosts"); });
  };
  EXPECT_EQ(
      refusal("a slots=4\nb\n"),
      "[--hostfile hosts] expected slots=N of each host, got 'b' without; give them, or --nproc_per_node, the ranks in all");
  EXPECT_TRUE(contains(refusal("a max_slots=4\n"), "got 'a' without"));
  for (const char* none : {"", "# a slots=2\n", "a slots=0\n"})
    EXPECT_EQ(refusal(none), "[--hostfile hosts] expected slots of hosts, NAME slots=N a line, got none");
  for (const char* slots : {"x", "", "-1", "4x", "1.5", "99999999999999999999", "9999999999"})
    EXPECT_TRUE(contains(refusal(std::string("a slots=") + slots), "expected a whole number of slots of 'a'"))
        << slots;
}

TEST(Hostfile, WithoutLostHostsHasTheLinesOfTheOthers) {
  const std::vector<HostLine> all =
      lines_of_hosts("a slots=2 max_slots=4 # fast\nb slots=3\n\na slots=1\nc slots=1\n", "hosts");
  EXPECT_EQ(names_of_hosts(all), (std::vector<std::string>{"a", "b", "c"}));
  const std::vector<HostLine> left = without_hosts(all, {"b"});
  EXPECT_EQ(text_of_hosts(left), "a slots=2 max_slots=4 \na slots=1\nc slots=1\n");
  EXPECT_EQ(ranks_that_are_left(7, all, left), 4);
  EXPECT_EQ(ranks_that_are_left(3, all, left), 3) << "the first hosts had them all";
  EXPECT_TRUE(without_hosts(all, {"a", "b", "c"}).empty());
  const std::vector<HostLine> bare = lines_of_hosts("a\nb slots=2\nc\n", "hosts");
  EXPECT_EQ(ranks_that_are_left(8, bare, without_hosts(bare, {"c"})), 6) << "nobody knows the slots of a";
  EXPECT_EQ(ranks_that_are_left(8, bare, without_hosts(bare, {"a", "c"})), 2);
  EXPECT_EQ(ranks_that_are_left(8, bare, lines_of_hosts("a slots=0\n", "hosts")), 1);
}

}  // namespace
}  // namespace shoehorn
