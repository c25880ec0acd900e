#include "ranks/host_topology.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace shoehorn {
namespace {

HostDevice device(const std::string& name, const std::string& numa_nodes,
                  const std::vector<int64_t>& bridges) {
  return {.name = name, .is_gpu = true, .bus = name, .numa_nodes = numa_nodes, .bridges = bridges};
}

// A host with two sockets. Host bridge 1 has a switch (3, with a port to each device) and a port of its own (6).
//
//   socket 0   1 ── 2 ── 3 ─┬ 4 ── a
//                │          ├ 5 ── b
//                │          └ 7 ── 8 ─ 9 ── c     a second switch behind the first
//                └─ 6 ── d
//              10 ── e
//   socket 1   20 ── 21 ── f
TEST(DevicePath, IsTheNearestThatBothShare) {
  const HostDevice a = device("a", "0", {1, 2, 3, 4});
  const HostDevice b = device("b", "0", {1, 2, 3, 5});
  const HostDevice c = device("c", "0", {1, 2, 3, 7, 8, 9});
  const HostDevice d = device("d", "0", {1, 6});
  const HostDevice e = device("e", "0", {10});
  const HostDevice f = device("f", "1", {20, 21});
  EXPECT_EQ(device_path(a, a), DevicePath::kSelf);
  EXPECT_EQ(device_path(a, b), DevicePath::kOneSwitch);
  EXPECT_EQ(device_path(a, c), DevicePath::kSwitches);
  EXPECT_EQ(device_path(c, a), DevicePath::kSwitches);
  EXPECT_EQ(device_path(a, d), DevicePath::kHostBridge);
  EXPECT_EQ(device_path(a, e), DevicePath::kNumaNode);
  EXPECT_EQ(device_path(a, f), DevicePath::kBetweenNodes);
  EXPECT_EQ(device_path(f, a), device_path(a, f));
  EXPECT_EQ(device_path(device("g", "", {1}), device("h", "", {2})), DevicePath::kBetweenNodes)
      << "nothing says that they are of one node";
  EXPECT_EQ(device_path_name(DevicePath::kHostBridge), "PHB");
}

TEST(HostTopology, ComesBackFromItsJson) {
  HostTopology host;
  host.host = "host-a";
  host.packages = {{0, "Model 1", 8, "0-15"}};
  host.numa_nodes = {{0, int64_t{64} << 30, "0-15"}};
  host.caches = {{"L2", 1 << 20, 8, 2}};
  host.devices = {device("gpu0", "0", {1, 2})};
  host.nvlinks = {{"gpu0", "gpu1", 4}};
  const nlohmann::json json = to_json(host);
  const HostTopology back = host_topology_from_json(json, "test");
  EXPECT_EQ(to_json(back), json);
  EXPECT_TRUE(back.devices.at(0).is_gpu);
}

TEST(HostTopology, NvlinksAreNearerThanBridges) {
  const HostDevice a = device("a", "0", {1, 2}), b = device("b", "0", {1, 3}), c = device("c", "1", {4});
  const HostTopology host{.devices = {a, b, c}, .nvlinks = {{"a", "c", 2}}};
  EXPECT_EQ(device_way(host, a, b), "PHB");
  EXPECT_EQ(device_way(host, a, c), "NV2");
  EXPECT_EQ(device_way(host, c, a), "NV2");
  EXPECT_EQ(device_way(host, a, a), "X");
}

TEST(HostTopology, AnotherFormIsRefused) {
  for (const char* text : {"[]", "{}", R"({"packages": 1, "numa_nodes": [], "caches": [], "devices": []})",
                           R"({"packages": [{}], "numa_nodes": [], "caches": [], "devices": []})"}) {
    EXPECT_THROW(host_topology_from_json(nlohmann::json::parse(text), "test"), UserError) << text;
  }
}

}  // namespace
}  // namespace shoehorn
