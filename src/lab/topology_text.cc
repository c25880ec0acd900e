#include "lab/topology_text.h"

#include <fmt/format.h>

#include "base/format.h"
#include "base/plural.h"
#include "lab/text_table.h"

namespace shoehorn {

namespace {

std::string or_nothing(const std::string& text) {
  return text.empty() ? kNothing : text;
}

std::string format_devices(const HostTopology& host) {
  const std::vector<HostDevice>& devices = host.devices;
  if (devices.empty()) return "  no network card or GPU on PCI\n";
  std::vector<TextColumn> columns = {{""}};
  std::vector<std::vector<std::string>> rows;
  for (const HostDevice& device : devices) {
    columns.push_back({device.name});
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{device.name});
    for (const HostDevice& other : devices) row.push_back(device_way(host, device, other));
    for (const std::string& cell :
         {or_nothing(device.processors), or_nothing(device.numa_nodes), device.bus, or_nothing(device.model)})
      row.push_back(cell);
  }
  for (const char* title : {"CPU Affinity", "NUMA Affinity", "bus", "model"}) columns.push_back({title});
  return format_table(columns, rows);
}

}  // namespace

std::string format_host_topology(const HostTopology& host) {
  std::string text = fmt::format("Host {}\n", host.host);
  for (const HostPackage& one : host.packages) {
    text += fmt::format("  socket {:<12}{}, processors {}{}\n", one.index, plural(one.cores, "core"),
                        or_nothing(one.processors), one.model.empty() ? "" : ", " + one.model);
  }
  for (const HostNumaNode& one : host.numa_nodes) {
    text += fmt::format("  NUMA node {:<9}{}, processors {}\n", one.index, format_bytes(one.memory_bytes),
                        or_nothing(one.processors));
  }
  for (const HostCache& one : host.caches) {
    text += fmt::format("  cache {:<13}{} x {}, each of {}\n", one.name, one.count, format_bytes(one.bytes),
                        plural(one.processors, "processor"));
  }
  return text + format_devices(host);
}

std::string format_topology_legend() {
  return "X itself, NV# by so many NVLinks, PIX through one PCIe switch, PXB through several, PHB through a host bridge, NODE through host bridges of "
         "a NUMA\nnode, SYS between NUMA nodes. NVLinks are seen where hwloc has NVML.\n";
}

std::string format_rank_places(const std::vector<RankOfHost>& ranks) {
  std::vector<std::vector<std::string>> rows;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    rows.push_back({fmt::format("{}", rank), ranks[rank].host, ranks[rank].processors});
  return format_table({{"rank"}, {"host"}, {"processors"}}, rows);
}

}  // namespace shoehorn
