#include "cli/link_option.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "lab/link_measurement.h"

namespace shoehorn {

std::vector<ArgumentSpec> link_rows() {
  return {
      {.name = "link_bandwidth",
       .kind = ArgumentKind::kNumber,
       .value = "GBIT",
       .help =
           "Gbit/s at which a rank sends to the next; unless given as `shoehorn topo` measured it on ranks"},
      {.name = "link_latency",
       .kind = ArgumentKind::kNumber,
       .standard = 0.0,
       .value = "MICROSECONDS",
       .help = "with --link_bandwidth: what each message takes besides"}};
}

std::vector<ArgumentSpec> launched_link_rows() {
  std::vector<ArgumentSpec> rows = link_rows();
  rows[0].help =
      "Gbit/s: messages between ranks of this host take as long as over such a link, to see what a slower one would do";
  return rows;
}

std::optional<RankLink> given_link(const CommandOptions& options) {
  const bool is_given = options.is_given("link_bandwidth");
  const double bandwidth = is_given ? options.number("link_bandwidth") : 0;
  const double latency = options.number("link_latency");
  if (is_given && !is_link_bandwidth(bandwidth))
    throw user_error("[--link_bandwidth] expected more than 0 Gbit/s, got {:g}", bandwidth);
  if (options.is_given("link_latency") && (!is_given || !(latency >= 0))) {
    throw user_error("[--link_latency] expected 0 µs or more beside --link_bandwidth, got {:g}{}", latency,
                     is_given ? "" : " alone");
  }
  if (!is_given) return std::nullopt;
  return link_of(bandwidth, latency, "--link_bandwidth");
}

PlannedLink planned_link(const CommandOptions& options, int64_t ranks, bool is_here) {
  PlannedLink planned{.link = given_link(options)};
  if (ranks == 1) return {};
  const bool is_given = planned.link.has_value();
  if (!is_given && is_here) {
    LoadedLink loaded = load_link();
    planned.link = std::move(loaded.link);
    planned.text = std::move(loaded.notice);
  } else if (!is_given) {
    planned.text = "The link between ranks of another machine is not known: --link_bandwidth says it\n";
  }
  if (planned.link) {
    planned.text = fmt::format("Messages by the link {}: {}\n",
                               is_given ? "that --link_bandwidth says" : planned.link->source,
                               format_link(*planned.link));
  }
  return planned;
}

MpiMemory planned_mpi_memory(int64_t ranks, bool is_here) {
  return mpi_memory(ranks, ranks > 1 && is_here ? load_link().mpi : std::nullopt);
}

}  // namespace shoehorn
