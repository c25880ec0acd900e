#include "lab/topology_text.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(TopologyTextTest, DevicesAreASquare) {
  HostTopology host;
  host.host = "host-a";
  host.packages = {{0, "Model 1", 8, "0-15"}};
  host.numa_nodes = {{0, int64_t{64} << 30, "0-15"}};
  host.caches = {{"L3", 32 << 20, 1, 16}};
  host.devices = {
      {.name = "gpu0", .is_gpu = true, .bus = "0000:01:00.0", .numa_nodes = "0", .bridges = {1, 2}},
      {.name = "eth0", .bus = "0000:02:00.0", .numa_nodes = "0", .bridges = {1, 3}}};
  const std::string text = format_host_topology(host);
  EXPECT_NE(text.find("Host host-a\n"), std::string::npos) << text;
  EXPECT_NE(text.find("8 cores, processors 0-15, Model 1"), std::string::npos) << text;
  EXPECT_NE(text.find("64.00 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("L3           1 x 32.00 MiB, each of 16 processors"), std::string::npos) << text;
  EXPECT_NE(text.find("  gpu0  X     PHB"), std::string::npos) << text;
  EXPECT_NE(text.find("  eth0  PHB   X "), std::string::npos) << text;
  host.devices.push_back(
      {.name = "gpu1", .is_gpu = true, .bus = "0000:03:00.0", .numa_nodes = "0", .bridges = {1, 4}});
  host.nvlinks = {{"0000:01:00.0", "0000:03:00.0", 18}};
  EXPECT_NE(format_host_topology(host).find("  gpu0  X     PHB   NV18"), std::string::npos)
      << format_host_topology(host);
  host.devices.clear();
  EXPECT_NE(format_host_topology(host).find("no network card or GPU on PCI"), std::string::npos);
}

TEST(TopologyTextTest, RanksHavePlaces) {
  EXPECT_EQ(format_rank_places({{"host-a", "0-1"}, {"host-b", "0"}}),
            "  rank  host    processors\n  0     host-a  0-1\n  1     host-b  0\n");
}

}  // namespace
}  // namespace shoehorn
