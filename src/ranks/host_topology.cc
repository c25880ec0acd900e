#include "ranks/host_topology.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "ranks/hwloc_library.h"
#include "ranks/open_ranks.h"
#include "ranks/opened_library.h"

namespace shoehorn {

namespace {

constexpr const char* kGpu = "gpu";
constexpr const char* kNetwork = "network";

// Calls function(element) for each of an array.
template <typename Item, typename Function>
std::vector<Item> items_of(const nlohmann::json& array, const Function& function) {
  std::vector<Item> items;
  for (const nlohmann::json& one : array.get_ref<const nlohmann::json::array_t&>())
    items.push_back(function(one));
  return items;
}

HostDevice device_of(const nlohmann::json& json) {
  return {.name = json.at("name").get<std::string>(),
          .is_gpu = json.at("kind").get<std::string>() == kGpu,
          .bus = json.at("bus").get<std::string>(),
          .model = json.at("model").get<std::string>(),
          .processors = json.at("processors").get<std::string>(),
          .numa_nodes = json.at("numa_nodes").get<std::string>(),
          .bridges = json.at("bridges").get<std::vector<int64_t>>()};
}

}  // namespace

HostTopology host_topology() {
  const OpenedLibrary opened = open_library(kHwlocLibraryName, kHwlocTopologyFunction);
  const auto function = reinterpret_cast<decltype(&shoehorn_hwloc_topology)>(opened.function);
  if (function == nullptr) {
    throw user_error(
        "[topo] expected {} for what this host is made of, got {}; install libhwloc-dev and build again",
        kHwlocLibraryName, opened.reason);
  }
  const char* text = function(kHwlocInterfaceVersion);
  if (text == nullptr)
    throw system_error("[topo] expected hwloc to read this host, got nothing from {}", opened.path.string());
  HostTopology topology = host_topology_from_json(parse_json(text, "hwloc"), "hwloc");
  topology.host = host_name();
  return topology;
}

HostTopology host_topology_from_json(const nlohmann::json& json, const std::string& source) {
  try {
    return {.host = json.value("host", std::string()),
            .packages = items_of<HostPackage>(
                json.at("packages"),
                [](const nlohmann::json& one) {
                  return HostPackage{one.at("index").get<int64_t>(), one.at("model").get<std::string>(),
                                     one.at("cores").get<int64_t>(), one.at("processors").get<std::string>()};
                }),
            .numa_nodes = items_of<HostNumaNode>(
                json.at("numa_nodes"),
                [](const nlohmann::json& one) {
                  return HostNumaNode{one.at("index").get<int64_t>(), one.at("memory_bytes").get<int64_t>(),
                                      one.at("processors").get<std::string>()};
                }),
            .caches = items_of<HostCache>(
                json.at("caches"),
                [](const nlohmann::json& one) {
                  return HostCache{one.at("name").get<std::string>(), one.at("bytes").get<int64_t>(),
                                   one.at("count").get<int64_t>(), one.at("processors").get<int64_t>()};
                }),
            .devices = items_of<HostDevice>(json.at("devices"), device_of),
            .nvlinks = items_of<HostNvlink>(json.at("nvlinks"), [](const nlohmann::json& one) {
              return HostNvlink{one.at("from").get<std::string>(), one.at("to").get<std::string>(),
                                one.at("links").get<int64_t>()};
            })};
  } catch (const nlohmann::json::exception& error) {
    throw user_error("[{}] expected a host's topology, got another form: {}", source, error.what());
  }
}

nlohmann::json to_json(const HostTopology& topology) {
  nlohmann::json json = {{"host", topology.host},
                         {"packages", nlohmann::json::array()},
                         {"numa_nodes", nlohmann::json::array()},
                         {"caches", nlohmann::json::array()},
                         {"devices", nlohmann::json::array()},
                         {"nvlinks", nlohmann::json::array()}};
  for (const HostPackage& one : topology.packages) {
    json["packages"].push_back(
        {{"index", one.index}, {"model", one.model}, {"cores", one.cores}, {"processors", one.processors}});
  }
  for (const HostNumaNode& one : topology.numa_nodes) {
    json["numa_nodes"].push_back(
        {{"index", one.index}, {"memory_bytes", one.memory_bytes}, {"processors", one.processors}});
  }
  for (const HostCache& one : topology.caches) {
    json["caches"].push_back(
        {{"name", one.name}, {"bytes", one.bytes}, {"count", one.count}, {"processors", one.processors}});
  }
  for (const HostDevice& one : topology.devices) {
    json["devices"].push_back({{"name", one.name},
                               {"kind", one.is_gpu ? kGpu : kNetwork},
                               {"bus", one.bus},
                               {"model", one.model},
                               {"processors", one.processors},
                               {"numa_nodes", one.numa_nodes},
                               {"bridges", one.bridges}});
  }
  for (const HostNvlink& one : topology.nvlinks)
    json["nvlinks"].push_back({{"from", one.from}, {"to", one.to}, {"links", one.links}});
  return json;
}

DevicePath device_path(const HostDevice& a, const HostDevice& b) {
  if (a.bus == b.bus) return DevicePath::kSelf;
  const auto [from, to] =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const auto common = from - a.bridges.begin();
  if (common == 0)
    return a.numa_nodes == b.numa_nodes && !a.numa_nodes.empty() ? DevicePath::kNumaNode
                                                                 : DevicePath::kBetweenNodes;
  if (common == 1) return DevicePath::kHostBridge;
  // A switch is a bridge above, and one to each device.
  const bool is_one_switch = a.bridges.end() - from <= 1 && b.bridges.end() - to <= 1;
  return is_one_switch ? DevicePath::kOneSwitch : DevicePath::kSwitches;
}

std::string_view device_path_name(DevicePath path) {
  static constexpr std::array<std::string_view, 6> kNames = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return kNames.at(static_cast<size_t>(path));
}

std::string device_way(const HostTopology& host, const HostDevice& a, const HostDevice& b) {
  for (const HostNvlink& one : host.nvlinks) {
    if ((one.from == a.bus && one.to == b.bus) || (one.from == b.bus && one.to == a.bus))
      return fmt::format("NV{}", one.links);
  }
  return std::string(device_path_name(device_path(a, b)));
}

}  // namespace shoehorn
