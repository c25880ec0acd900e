// Hosts for people, in the shape of `nvidia-smi topo -m`: a square of devices with the ways between them.
#pragma once

#include <string>
#include <vector>

#include "ranks/host_topology.h"

namespace shoehorn {

std::string format_host_topology(const HostTopology& host);

// What the words of the squares mean, and what they do not say.
std::string format_topology_legend();

// Where a rank runs.
struct RankOfHost {
  std::string host;
  std::string processors;  // that it may use
};
std::string format_rank_places(const std::vector<RankOfHost>& ranks);

}  // namespace shoehorn
