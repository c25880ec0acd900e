#include "cli/link_option.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "io/test_directory.h"
#include "lab/link_measurement.h"
#include "ranks/launched_rank.h"
#include "ranks/open_ranks.h"

namespace shoehorn {
namespace {

// Two ranks, each with threads for all processors.
class LinkOfRunTest : public testing::Test {
 protected:
  LinkOfRunTest() {
    setenv("XDG_CACHE_HOME", directory_.path().c_str(), 1);
    args_.world_size = 2;
    args_.ranks_per_host = 2;
  }
  ~LinkOfRunTest() override {
    unsetenv("XDG_CACHE_HOME");
    unsetenv(kLinkVariable);
  }
  static LinkMeasurement measured(const std::string& other_host, RankLink link) {
    return {.hosts = {host_name(), other_host},
            .link = std::move(link),
            .mpi = {.bytes = int64_t{9} << 20, .measured_ranks = 2}};
  }
  TestDirectory directory_;
  TrainingArguments args_;
};

TEST_F(LinkOfRunTest, IsTheOneThatWasMeasured) {
  EXPECT_FALSE(link_of_run(args_)) << "nobody did";
  save_links(measured(host_name(), {2e-6, 4e9, "measured here"}));
  const std::optional<RankLink> link = link_of_run(args_);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->bytes_per_second, 4e9);
  EXPECT_EQ(link->processor_seconds_per_byte, 1 / 4e9);
  args_.ranks_per_host.reset();
  EXPECT_FALSE(link_of_run(args_)) << "nobody knows which messages leave a host";
}

TEST_F(LinkOfRunTest, IsWhatTheLaunchMakesIt) {
  save_links(measured(host_name(), {2e-6, 4e9, "measured here"}));
  setenv(kLinkVariable, to_text({.latency_seconds = 1e-3, .bytes_per_second = 1e8}).c_str(), 1);
  const std::optional<RankLink> link = link_of_run(args_);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->latency_seconds, 1e-3);
  EXPECT_EQ(link->bytes_per_second, 1e8);
  EXPECT_EQ(link->processor_seconds_per_byte, 1 / 4e9) << "copies are those of this host";
}

// What a message takes from host to host is the network's time.
TEST_F(LinkOfRunTest, ALinkBetweenHostsSaysNothingOfCopies) {
  save_links(measured("host-b", {5e-5, 1e8, "measured between hosts"}));
  const std::optional<RankLink> within = link_of_run(args_);
  ASSERT_TRUE(within);
  EXPECT_EQ(within->processor_seconds_per_byte, 0);
  args_.ranks_per_host = 1;
  const std::optional<RankLink> between = link_of_run(args_);
  ASSERT_TRUE(between && between->between_hosts);
  EXPECT_EQ(between->between_hosts->bytes_per_second, 1e8);
  EXPECT_EQ(between->processor_seconds_per_byte, 0);
}

}  // namespace
}  // namespace shoehorn
