#include "lab/link_measurement.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "io/test_directory.h"
#include "lab/cached_json.h"
#include "ranks/open_ranks.h"
#include "ranks/process_ranks_testing.h"

namespace shoehorn {
namespace {

TEST(LinkMeasurementTest, ALinkIsFoundInTheTimesThatItMakes) {
  const RankLink link{.latency_seconds = 2e-5, .bytes_per_second = 3e9};
  for (const int64_t ranks : {2, 5, 8}) {
    std::vector<AllReducePoint> points;
    for (int64_t bytes = 1024; bytes <= 16 << 20; bytes *= 4)
      points.push_back({bytes, all_reduce_seconds(link, bytes, ranks)});
    const RankLink found = fitted_link(points, ranks);
    EXPECT_NEAR(found.latency_seconds, link.latency_seconds, 1e-9 * link.latency_seconds);
    EXPECT_NEAR(found.bytes_per_second, link.bytes_per_second, 1e-6 * link.bytes_per_second);
  }
}

// Two ranks send each half of the tensor twice.
TEST(LinkMeasurementTest, AnAllReduceIsItsMessages) {
  EXPECT_DOUBLE_EQ(all_reduce_seconds({.latency_seconds = 1, .bytes_per_second = 10}, 100, 2), 2 * (1 + 5));
  EXPECT_DOUBLE_EQ(all_reduce_seconds({.latency_seconds = 1, .bytes_per_second = 10}, 100, 5), 8 * (1 + 2));
}

TEST(LinkMeasurementTest, NoiseGivesNoLinkThatRunsBackwards) {
  // The large one takes more than in proportion: less than no latency would fit.
  const RankLink slow = fitted_link({{1024, 1e-6}, {1 << 20, 1.0}}, 2);
  EXPECT_GE(slow.latency_seconds, 0);
  EXPECT_GT(slow.bytes_per_second, 0);
  // The large one takes less than the small one.
  const RankLink fast = fitted_link({{1024, 1.0}, {1 << 20, 0.5}}, 2);
  EXPECT_GE(fast.latency_seconds, 0);
  EXPECT_GT(fast.bytes_per_second, 0);
}

LinkMeasurement three_ranks() {
  return {.hosts = {"host-a", "host-a", "host-b"},
          .pairs = {{0, 1, 1e-6, 4e9}, {0, 2, 5e-5, 1.25e8}, {1, 2, 5e-5, 1.25e8}},
          .all_reduce = {{1024, 1e-4}, {4096, 2e-4}},
          .link = {2e-5, 1e8, "measured between 3 ranks on host-a, host-b"},
          .within_host = RankLink{1e-6, 4e9, "measured between pairs of ranks on host-a, one at a time"},
          .link_error = 0.1,
          .mpi = {.bytes = int64_t{9} << 20, .measured_ranks = 3}};
}

TEST(LinkMeasurementTest, ShowsASquareOfRanks) {
  const std::string text = format_links(three_ranks());
  EXPECT_NE(text.find("  0        X   1.0  50.0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("All-reduce over 3 ranks on host-a, host-b"), std::string::npos) << text;
  EXPECT_NE(text.find("20.0 µs a message and 0.1 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("within a host 1.0 µs a message and 4 GB/s"), std::string::npos) << text;
}

TEST(LinkMeasurementTest, OfManyRanksShowsNeighbours) {
  LinkMeasurement many = three_ranks();
  many.hosts.assign(static_cast<size_t>(kMaxRanksOfPairs) + 1, "host-a");
  EXPECT_NE(format_links(many).find("0 - 1"), std::string::npos);
}

// Each pair once, all points of the curve, and a link by which time and bandwidth are above 0.
TEST(LinkMeasurementTest, RanksAreMeasured) {
  const int threads = thread_count().threads;
  use_threads(1);
  const std::vector<std::string> texts = test_support::run_in_processes(
      3, [](const std::shared_ptr<Communicator>& ranks) { return to_json(measure_links(ranks)).dump(); });
  use_threads(threads);
  const nlohmann::json measured = nlohmann::json::parse(texts[0]);
  EXPECT_EQ(measured["hosts"].size(), 3U);
  ASSERT_EQ(measured["pairs"].size(), 3U);
  for (const nlohmann::json& pair : measured["pairs"]) {
    EXPECT_GT(pair["latency_seconds"].get<double>(), 0);
    EXPECT_GT(pair["bytes_per_second"].get<double>(), 0);
  }
  ASSERT_EQ(measured["all_reduce"].size(), 8U);
  EXPECT_GT(measured["all_reduce"][7]["seconds"].get<double>(),
            measured["all_reduce"][0]["seconds"].get<double>());
  EXPECT_GT(measured["link"]["bytes_per_second"].get<double>(), 0);
}

class LinkFileTest : public testing::Test {
 protected:
  LinkFileTest() { setenv("XDG_CACHE_HOME", directory_.path().c_str(), 1); }
  ~LinkFileTest() override { unsetenv("XDG_CACHE_HOME"); }
  static LinkMeasurement of_this_host() {
    LinkMeasurement measurement = three_ranks();
    measurement.hosts = {host_name(), host_name(), host_name()};
    measurement.link = {2e-6, 3e9, "measured between 3 ranks on " + host_name()};
    measurement.within_host.reset();
    return measurement;
  }
  static LinkMeasurement of_this_host_and_another() {
    LinkMeasurement measurement = three_ranks();
    measurement.hosts = {host_name(), host_name(), "host-b"};
    return measurement;
  }
  TestDirectory directory_;
};

TEST_F(LinkFileTest, ComesBackOnTheHostThatMeasuredIt) {
  EXPECT_NE(load_link(false).notice.find("nobody measured it from " + host_name()), std::string::npos);
  save_links(three_ranks());
  EXPECT_FALSE(load_link(false).link) << "it is of host-a";
  save_links(of_this_host());
  const LoadedLink loaded = load_link(false);
  ASSERT_TRUE(loaded.link) << loaded.notice;
  EXPECT_EQ(loaded.link->latency_seconds, 2e-6);
  EXPECT_EQ(loaded.link->bytes_per_second, 3e9);
  EXPECT_EQ(loaded.link->source, "measured between 3 ranks on " + host_name());
  EXPECT_FALSE(loaded.link->between_hosts);
  ASSERT_TRUE(loaded.mpi);
  EXPECT_EQ(loaded.mpi->bytes, int64_t{9} << 20);
  EXPECT_EQ(loaded.mpi->measured_ranks, 3);
}

// A host alone and with others are two measurements, neither of which takes the place of the other.
TEST_F(LinkFileTest, OneHostAndSeveralStandBesideEachOther) {
  save_links(of_this_host_and_another());
  EXPECT_EQ(load_link(false).link->source, "measured between pairs of ranks on host-a, one at a time");
  EXPECT_EQ(load_link(true).link->source, load_link(false).link->source) << "within a host";
  save_links(of_this_host());
  EXPECT_EQ(load_link(false).link->latency_seconds, 2e-6);
  const LoadedLink several = load_link(true);
  ASSERT_TRUE(several.link && several.link->between_hosts) << several.notice;
  EXPECT_EQ(several.link->latency_seconds, 2e-6) << "within a host, as measured there alone";
  EXPECT_EQ(several.link->between_hosts->latency_seconds, 2e-5);
  EXPECT_EQ(several.link->between_hosts->source, "measured between 3 ranks on host-a, host-b");
}

TEST_F(LinkFileTest, OneHostSaysNothingOfSeveral) {
  save_links(of_this_host());
  const LoadedLink several = load_link(true);
  EXPECT_FALSE(several.link);
  EXPECT_NE(
      several.notice.find("The link between hosts is not known: nobody measured it from " + host_name()),
      std::string::npos)
      << several.notice;
  EXPECT_NE(several.notice.find("--hostfile"), std::string::npos);
  EXPECT_TRUE(several.mpi) << "what MPI holds is much the same";
}

// Where no two ranks were on one host, that between hosts is all that is known.
TEST_F(LinkFileTest, RanksThatAreAloneOnTheirHostsTellTheLinkBetweenThem) {
  LinkMeasurement apart = of_this_host_and_another();
  apart.hosts = {host_name(), "host-a", "host-b"};
  apart.within_host.reset();
  save_links(apart);
  EXPECT_EQ(load_link(false).link->latency_seconds, 2e-5);
  EXPECT_EQ(load_link(true).link->latency_seconds, 2e-5);
  EXPECT_EQ(load_link(true).link->between_hosts->latency_seconds, 2e-5);
}

// What was measured while others ran is better than nothing, and no better than what was measured before.
TEST_F(LinkFileTest, DisturbedTakesThePlaceOfDisturbedOnly) {
  const auto measured = [](double latency_seconds, double others) {
    LinkMeasurement measurement = of_this_host();
    measurement.link.latency_seconds = latency_seconds;
    measurement.load.ranks = {{.host = host_name(), .own = 0.1, .others = others}};
    return measurement;
  };
  EXPECT_TRUE(save_links(measured(1, 0.5)));
  EXPECT_TRUE(save_links(measured(2, 0.5)));
  EXPECT_EQ(load_link(false).link->latency_seconds, 2);
  EXPECT_TRUE(save_links(measured(3, 0)));
  EXPECT_EQ(load_link(false).link->latency_seconds, 3);
  EXPECT_FALSE(save_links(measured(4, 0.5)));
  EXPECT_EQ(load_link(false).link->latency_seconds, 3);
  EXPECT_NE(format_links(measured(4, 0.5)).find("Something disturbed this: other processes used 0.5 of 1"),
            std::string::npos);
  EXPECT_EQ(format_links(measured(3, 0)).find("disturbed"), std::string::npos);
}

TEST_F(LinkFileTest, DamagedIsNotUsedAndSaysSo) {
  save_links(of_this_host());
  const std::filesystem::path path = link_path(host_name(), false);
  write_text_atomic(path, "{}");
  EXPECT_FALSE(load_link(false).link);
  EXPECT_NE(load_link(false).notice.find("is damaged"), std::string::npos);
  save_cached_json(path, {{"format", 0}});
  EXPECT_NE(load_link(false).notice.find("another format"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
