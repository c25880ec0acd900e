// What a host is made of: sockets, caches, memory of NUMA nodes, network cards and GPUs, and how far these are from each
// other. hwloc (https://www.open-mpi.org/projects/hwloc) reads it, in a library of its own that is opened when it is asked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

struct HostPackage {  // a socket
  int64_t index = 0;
  std::string model = {};  // empty: unknown
  int64_t cores = 0;
  std::string processors = {};  // "0-3,8"
};

struct HostNumaNode {
  int64_t index = 0;
  int64_t memory_bytes = 0;
  std::string processors = {};
};

// All caches that are alike.
struct HostCache {
  std::string name = {};  // "L2"
  int64_t bytes = 0;      // of one
  int64_t count = 0;
  int64_t processors = 0;  // that share one
};

struct HostDevice {
  std::string name = {};  // "eth0"; "0000:01:00.0" where the system has no name for it
  bool is_gpu = false;    // else a network card
  std::string bus = {};   // PCI's address
  std::string model = {};
  std::string processors = {};        // those near it
  std::string numa_nodes = {};        // the same
  std::vector<int64_t> bridges = {};  // PCI bridges above it, the host's first
};

// Between two GPUs, by the addresses of their buses.
struct HostNvlink {
  std::string from = {}, to = {};
  int64_t links = 0;
};

struct HostTopology {
  std::string host = {};
  std::vector<HostPackage> packages = {};
  std::vector<HostNumaNode> numa_nodes = {};
  std::vector<HostCache> caches = {};
  std::vector<HostDevice> devices = {};
  std::vector<HostNvlink> nvlinks = {};  // none where hwloc has no NVML
};

// Of this machine. UserError if the program was built without hwloc, with what to install; SystemError if hwloc fails.
HostTopology host_topology();

// UserError naming `source` for anything else than what to_json writes. "host" may be absent.
HostTopology host_topology_from_json(const nlohmann::json& json, const std::string& source);
nlohmann::json to_json(const HostTopology& topology);

// The way between two devices of a host over PCIe, as `nvidia-smi topo -m` calls it, nearest first.
enum class DevicePath : uint8_t {
  kSelf,          // X
  kOneSwitch,     // PIX: one PCIe switch
  kSwitches,      // PXB: several, but no host bridge
  kHostBridge,    // PHB: a PCIe host bridge
  kNumaNode,      // NODE: host bridges of one NUMA node
  kBetweenNodes,  // SYS: what connects NUMA nodes
};
DevicePath device_path(const HostDevice& a, const HostDevice& b);
std::string_view device_path_name(DevicePath path);
// The same, or "NV4" where four NVLinks join them.
std::string device_way(const HostTopology& host, const HostDevice& a, const HostDevice& b);

}  // namespace shoehorn
