// libshoehorn_hwloc.so: what hwloc knows of this machine. See ranks/hwloc_library.h.
#include "ranks/hwloc_library.h"

#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace {

using nlohmann::ordered_json;
using PciDevice = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

// PCI's classes and vendors (pci.ids).
constexpr unsigned kNetworkClass = 0x02;
constexpr unsigned kDisplayClass = 0x03;
constexpr unsigned kVgaClass = 0x0300;
constexpr unsigned kAcceleratorClass = 0x12;
constexpr std::array<unsigned, 3> kVendorsOfGpus = {0x10de, 0x1002, 0x8086};

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// "0-3,8"; empty for no set.
std::string list_of(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (set == nullptr || hwloc_bitmap_list_asprintf(&text, set) < 0) return {};
  std::string list = text;
  std::free(text);
  return list;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? std::string() : value;
}

template <typename Function>
void for_each(hwloc_topology_t topology, hwloc_obj_type_t type, const Function& function) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
    function(object);
}

ordered_json packages_of(hwloc_topology_t topology) {
  ordered_json packages = ordered_json::array();
  for_each(topology, HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t package) {
    packages.push_back(
        {{"index", package->logical_index},
         {"model", info_of(package, "CPUModel")},
         {"cores", hwloc_get_nbobjs_inside_cpuset_by_type(topology, package->cpuset, HWLOC_OBJ_CORE)},
         {"processors", list_of(package->cpuset)}});
  });
  return packages;
}

ordered_json numa_nodes_of(hwloc_topology_t topology) {
  ordered_json nodes = ordered_json::array();
  for_each(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) {
    nodes.push_back({{"index", node->os_index},
                     {"memory_bytes", node->attr->numanode.local_memory},
                     {"processors", list_of(node->cpuset)}});
  });
  return nodes;
}

// Alike ones are one entry with their count.
ordered_json caches_of(hwloc_topology_t topology) {
  std::map<std::tuple<unsigned, std::string, uint64_t, int>, int> counts;
  for (hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    for_each(topology, type, [&](hwloc_obj_t cache) {
      std::array<char, 32> name{};
      hwloc_obj_type_snprintf(name.data(), name.size(), cache, 0);
      ++counts[{cache->attr->cache.depth, name.data(), cache->attr->cache.size,
                hwloc_bitmap_weight(cache->cpuset)}];
    });
  }
  ordered_json caches = ordered_json::array();
  for (const auto& [cache, count] : counts) {
    const auto& [depth, name, bytes, processors] = cache;
    caches.push_back({{"name", name}, {"bytes", bytes}, {"count", count}, {"processors", processors}});
  }
  return caches;
}

bool is_gpu(const PciDevice& pci) {
  if (pci.class_id >> 8 == kAcceleratorClass) return true;
  if (pci.class_id >> 8 != kDisplayClass) return false;
  // Boards have screens of their own.
  return pci.class_id != kVgaClass ||
         std::find(kVendorsOfGpus.begin(), kVendorsOfGpus.end(), pci.vendor_id) != kVendorsOfGpus.end();
}

// As the system calls it: the first of its names that is not one of a screen; else where it is.
std::string name_of(hwloc_obj_t device, const std::string& bus) {
  std::string name;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    const bool is_preferred = child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
                              child->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC;
    if (name.empty() || is_preferred) name = child->name;
    if (is_preferred) break;
  }
  return name.empty() ? bus : name;
}

// The bridges above a device, the host's first.
ordered_json bridges_of(hwloc_obj_t device) {
  std::vector<uint64_t> bridges;
  for (hwloc_obj_t above = device->parent; above != nullptr && above->type == HWLOC_OBJ_BRIDGE;
       above = above->parent)
    bridges.push_back(above->gp_index);
  std::reverse(bridges.begin(), bridges.end());
  return bridges;
}

std::string bus_of(hwloc_obj_t device) {
  const PciDevice& pci = device->attr->pcidev;
  std::array<char, 32> bus{};
  std::snprintf(bus.data(), bus.size(), "%04x:%02x:%02x.%01x", pci.domain, pci.bus, pci.dev, pci.func);
  return bus.data();
}

ordered_json devices_of(hwloc_topology_t topology) {
  ordered_json devices = ordered_json::array();
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    const PciDevice& pci = device->attr->pcidev;
    const bool is_network = pci.class_id >> 8 == kNetworkClass;
    if (!is_network && !is_gpu(pci)) continue;
    const std::string bus = bus_of(device);
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    devices.push_back({{"name", name_of(device, bus)},
                       {"kind", is_network ? "network" : "gpu"},
                       {"bus", bus},
                       {"model", info_of(device, "PCIDevice")},
                       {"processors", list_of(place->cpuset)},
                       {"numa_nodes", list_of(place->nodeset)},
                       {"bridges", bridges_of(device)}});
  }
  return devices;
}

struct ReleaseDistances {
  hwloc_topology_t topology;
  void operator()(hwloc_distances_s* distances) const { hwloc_distances_release(topology, distances); }
};
using Distances = std::unique_ptr<hwloc_distances_s, ReleaseDistances>;

// The PCI device that an object of the system's is of; null for a switch's port.
hwloc_obj_t pci_device_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

// Links between pairs of GPUs, through switches too, where hwloc has NVML.
ordered_json nvlinks_of(hwloc_topology_t topology) {
  ordered_json links = ordered_json::array();
  unsigned count = 1;
  hwloc_distances_s* found = nullptr;
  if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &count, &found, 0) != 0 || count == 0)
    return links;
  const Distances distances(found, {topology});
  const auto is_switch = [](hwloc_obj_t object) {
    return object->subtype != nullptr && std::string(object->subtype) == "NVSwitch";
  };
  // Without a switch it leaves nothing.
  if (std::any_of(found->objs, found->objs + found->nbobjs, is_switch))
    hwloc_distances_transform(topology, found, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE, nullptr, 0);
  if (hwloc_distances_transform(topology, found, HWLOC_DISTANCES_TRANSFORM_LINKS, nullptr, 0) != 0)
    return links;
  for (unsigned a = 0; a < found->nbobjs; ++a) {
    for (unsigned b = a + 1; b < found->nbobjs; ++b) {
      const uint64_t number = found->values[a * found->nbobjs + b];
      hwloc_obj_t from = pci_device_of(found->objs[a]), to = pci_device_of(found->objs[b]);
      if (number == 0 || from == nullptr || to == nullptr || is_switch(found->objs[a]) ||
          is_switch(found->objs[b]))
        continue;
      links.push_back({{"from", bus_of(from)}, {"to", bus_of(to)}, {"links", number}});
    }
  }
  return links;
}

}  // namespace

__attribute__((visibility("default"))) const char* shoehorn_hwloc_shares(int interface_version, int shares) {
  hwloc_topology_t made = nullptr;
  if (interface_version != shoehorn::kHwlocInterfaceVersion || hwloc_topology_init(&made) != 0)
    return nullptr;
  const Topology topology(made);
  const Bitmap allowed(hwloc_bitmap_alloc());
  if (allowed == nullptr || hwloc_topology_load(made) != 0 ||
      hwloc_get_cpubind(made, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0 ||
      hwloc_topology_restrict(made, allowed.get(), 0) != 0)
    return nullptr;
  std::vector<hwloc_cpuset_t> sets(static_cast<size_t>(shares));
  hwloc_obj_t root = hwloc_get_root_obj(made);
  if (hwloc_distrib(made, &root, 1, sets.data(), static_cast<unsigned>(shares), INT_MAX, 0) != 0)
    return nullptr;
  ordered_json lists = ordered_json::array();
  for (const hwloc_cpuset_t set : sets) lists.push_back(list_of(Bitmap(set).get()));
  static std::string text;
  text = lists.dump();
  return text.c_str();
}

__attribute__((visibility("default"))) const char* shoehorn_hwloc_topology(int interface_version) {
  if (interface_version != shoehorn::kHwlocInterfaceVersion) return nullptr;
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return nullptr;
  const Topology topology(made);
  if (hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
      hwloc_topology_load(made) != 0)
    return nullptr;
  static std::string text;
  text = ordered_json{{"packages", packages_of(made)},
                      {"numa_nodes", numa_nodes_of(made)},
                      {"caches", caches_of(made)},
                      {"devices", devices_of(made)},
                      {"nvlinks", nvlinks_of(made)}}
             .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return text.c_str();
}
