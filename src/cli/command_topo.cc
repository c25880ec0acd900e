#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/process.h"
#include "base/processors.h"
#include "cli/commands.h"
#include "cli/rank_of_process.h"
#include "cli/result_file.h"
#include "io/json_file.h"
#include "lab/link_measurement.h"
#include "lab/topology_text.h"
#include "ranks/agreement.h"
#include "ranks/host_topology.h"
#include "ranks/launched_rank.h"
#include "ranks/shared_processors.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

constexpr double kTimeoutSeconds = 60;

const std::vector<ArgumentSpec>& topo_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "links",
       .kind = kFlag,
       .standard = true,
       .help = "of several ranks: measure how they reach each other, in some seconds, and keep it for plan"},
      result_json_row(),
      result_json_file_row()};
  return rows;
}

// What all ranks know of each other.
struct Topology {
  std::vector<HostTopology> hosts = {};
  std::vector<RankOfHost> ranks = {};  // none where there is one
  std::optional<LinkMeasurement> links = {};
};

// Each rank's text, which may be long.
std::vector<std::string> gather_long_texts(Communicator& ranks, const std::string& own) {
  const std::vector<size_t> sizes = gather_values(ranks, own.size());
  return gather_texts(ranks, own, *std::max_element(sizes.begin(), sizes.end()) + 1);
}

// `mpi_bytes`: what MPI made this rank hold.
Topology topology_of_ranks(const std::shared_ptr<Communicator>& ranks, int64_t mpi_bytes, bool with_links) {
  Topology topology;
  const std::vector<std::string> hosts = gather_long_texts(*ranks, to_json(host_topology()).dump());
  const std::vector<std::string> processors = gather_long_texts(*ranks, allowed_processor_list());
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    HostTopology host = host_topology_from_json(parse_json(hosts[rank], "topo"), "topo");
    topology.ranks.push_back({host.host, processors[rank]});
    const bool is_known = std::any_of(topology.hosts.begin(), topology.hosts.end(),
                                      [&](const HostTopology& one) { return one.host == host.host; });
    if (!is_known) topology.hosts.push_back(std::move(host));
  }
  if (!with_links) return topology;
  topology.links = measure_links(ranks);
  const std::vector<int64_t> of_ranks = gather_values(*ranks, mpi_bytes);
  topology.links->mpi = {.bytes = std::max<int64_t>(0, *std::max_element(of_ranks.begin(), of_ranks.end())),
                         .measured_ranks = ranks->size()};
  return topology;
}

std::string format_topology(const Topology& topology) {
  std::string text;
  for (const HostTopology& host : topology.hosts) text += format_host_topology(host);
  text += format_topology_legend();
  if (!topology.ranks.empty()) text += "Ranks\n" + format_rank_places(topology.ranks);
  if (topology.links) text += format_links(*topology.links);
  return text;
}

nlohmann::json topology_json(const Topology& topology) {
  nlohmann::json hosts = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (const HostTopology& host : topology.hosts) hosts.push_back(to_json(host));
  for (const RankOfHost& rank : topology.ranks)
    ranks.push_back({{"host", rank.host}, {"processors", rank.processors}});
  nlohmann::json json = {{"hosts", std::move(hosts)}, {"ranks", std::move(ranks)}};
  if (topology.links) json["links"] = to_json(*topology.links);
  return json;
}

}  // namespace

CommandHelp help_of_topo() {
  return {
      .name = "topo",
      .introduction =
          "What hosts are made of: sockets, caches, NUMA nodes, network cards, GPUs, and the ways between these, as\n"
          "`nvidia-smi topo -m` shows them. Of several ranks also the latency and the bandwidth between them, and the\n"
          "time of their all-reduce, which plan then uses.\n\n"
          "  shoehorn topo [FLAGS]\n"
          "  shoehorn launch --nproc_per_node 4 topo\n",
      .own_rows = topo_option_rows()};
}

int run_topo(const std::vector<std::string>& words) {
  const CommandOptions options = parse_result_options(topo_option_rows(), words);
  prepare_result_files(options);
  const std::optional<LaunchedRank> launched = launched_rank();
  if (!launched) {
    const Topology topology{.hosts = {host_topology()}};
    write_result(options, topology_json(topology), format_topology(topology));
    return 0;
  }
  const int64_t bytes_without_mpi = trimmed_resident_bytes();
  const std::shared_ptr<Communicator> ranks = open_ranks_of_process(*launched, kTimeoutSeconds);
  const int64_t mpi_bytes = trimmed_resident_bytes() - bytes_without_mpi;
  bind_to_share(*ranks);  // as training is
  const Topology topology = topology_of_ranks(ranks, mpi_bytes, options.flag("links"));
  if (ranks->is_main()) {
    const bool is_kept = !topology.links || ranks->is_paced() || save_links(*topology.links);
    write_result(
        options, topology_json(topology),
        format_topology(topology) +
            (is_kept ? "" : "plan goes on by what was measured before, when nothing disturbed it\n"));
  }
  ranks->finish();
  return 0;
}

}  // namespace shoehorn
