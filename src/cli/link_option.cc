#include "cli/link_option.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/plural.h"
#include "exec/backend/thread_count.h"
#include "lab/link_measurement.h"
#include "ranks/launched_rank.h"
#include "train/planned_run.h"

namespace shoehorn {

namespace {

constexpr const char* kLinkFlag = "--link_bandwidth";

// NVLink, whose figure is of both ways.
std::optional<RankLink> link_of_device(const Device& device) {
  constexpr double kWays = 2;
  const double both_ways = device.figure("link");
  if (both_ways == 0) return std::nullopt;
  return RankLink{
      .bytes_per_second = both_ways / kWays,
      .source = fmt::format("of {}'s data sheet (half of {:.0f} GB/s, which count both ways; no latency)",
                            device.title, both_ways / 1e9)};
}

// As measured, or within a host by the data sheet.
LoadedLink known_link(const PlannedMachine& machine, bool on_several_hosts) {
  if (machine.backend->can_run()) return load_link(on_several_hosts);
  std::optional<RankLink> link = machine.device ? link_of_device(*machine.device) : std::nullopt;
  if (link && !on_several_hosts) return {.link = std::move(link)};
  return {.notice =
              fmt::format("The link between {} of another machine is not known: --link_bandwidth says it\n",
                          on_several_hosts ? "hosts" : "ranks")};
}

// `known`: within a host.
RankLink with_given(std::optional<RankLink> known, const RankLink& given, bool on_several_hosts) {
  if (!on_several_hosts) return given;
  RankLink link = known.value_or(given);
  link.between_hosts = HostLink{given.latency_seconds, given.bytes_per_second, given.source};
  return link;
}

// What a rank has of its host's memory, where that is what limits it.
const char* memory_share_text(const TrainingArguments& args, const Backend& backend) {
  if (!backend.machine().device_is_host || args.memory_budget) return "";
  if (args.ranks_per_host || ranks_sharing_memory(args, backend) > 1)
    return ", of whose memory each has its share";
  return ", but of its memory each has all, for it has no processor for each";
}

std::string hosts_text(const TrainingArguments& args, const Backend& backend) {
  const char* const share = memory_share_text(args, backend);
  if (args.ranks_per_host)
    return fmt::format("A host has {}{}\n", plural(ranks_of_host(args), "rank"), share);
  return fmt::format("One host is taken to have all {} ranks{}; --ranks_per_host says how many a host has\n",
                     args.world_size, share);
}

// The link that `launch --link_bandwidth` makes its ranks wait for.
std::optional<RankLink> launched_link() {
  const std::optional<LinkPace> pace = launched_pace();
  if (!pace) return std::nullopt;
  return RankLink{.latency_seconds = pace->latency_seconds,
                  .bytes_per_second = pace->bytes_per_second,
                  .source = kLinkFlag};
}

// Of the ranks of a host, each with the threads of this process.
bool have_all_processors(const TrainingArguments& args) {
  const ThreadCount count = thread_count();
  return ranks_of_host(args) * count.threads >= count.processors.usable();
}

// Of ranks on this machine: `given`, else as measured, with what copies take of the computation.
std::optional<RankLink> link_here(std::optional<RankLink> measured, const std::optional<RankLink>& given,
                                  const TrainingArguments& args) {
  const bool is_slowed = measured && measured->is_of_one_host && have_all_processors(args);
  const double copying = is_slowed ? 1 / measured->bytes_per_second : 0;
  if (given) measured = with_given(std::move(measured), *given, ranks_of_host(args) < args.world_size);
  if (measured) measured->processor_seconds_per_byte = copying;
  return measured;
}

std::string link_text(const RankLink& link) {
  const auto name = [](const std::string& source) {
    return source == kLinkFlag ? fmt::format("that {} says", source) : source;
  };
  const double copying = link.processor_seconds_per_byte;
  const std::string of_copies =
      copying > 0
          ? fmt::format("; ranks have all processors, and copies take {:.2g} ns a byte from computing",
                        1e9 * copying)
          : "";
  if (!link.between_hosts)
    return fmt::format("Messages by the link {}: {}{}\n", name(link.source), format_link(link), of_copies);
  const HostLink& between = *link.between_hosts;
  const std::string within =
      link.source == between.source
          ? "no other is known within a host"
          : fmt::format("within a host by the link {}: {}", name(link.source), format_link(link));
  return fmt::format(
      "Messages between hosts by the link {}: {}; {}{}\n", name(between.source),
      format_link({.latency_seconds = between.latency_seconds, .bytes_per_second = between.bytes_per_second}),
      within, of_copies);
}

}  // namespace

std::vector<ArgumentSpec> link_rows() {
  return {
      {.name = "link_bandwidth",
       .kind = ArgumentKind::kNumber,
       .value = "GBIT",
       .help =
           "Gbit/s at which a rank sends to the next, on several hosts (--ranks_per_host) a host to another; unless given as "
           "`shoehorn topo` measured it on ranks"},
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
  return link_of(bandwidth, latency, kLinkFlag);
}

PlannedLink planned_link(const CommandOptions& options, const TrainingArguments& args,
                         const PlannedMachine& machine) {
  std::optional<RankLink> given = given_link(options);
  if (args.world_size == 1) return {};
  const bool is_here = machine.backend->can_run();
  if (!given && is_here) given = launched_link();
  const bool on_several_hosts = ranks_of_host(args) < args.world_size;
  LoadedLink known = known_link(machine, on_several_hosts && !given);
  if (is_here)
    known.link = link_here(std::move(known.link), given, args);
  else if (given)
    known.link = with_given(std::move(known.link), *given, on_several_hosts);
  std::string text =
      hosts_text(args, *machine.backend) + (known.link ? link_text(*known.link) : known.notice);
  return {.link = std::move(known.link), .text = std::move(text)};
}

std::optional<RankLink> link_of_run(const TrainingArguments& args) {
  if (!args.ranks_per_host) return std::nullopt;
  const bool on_several_hosts = ranks_of_host(args) < args.world_size;
  return link_here(load_link(on_several_hosts).link, launched_link(), args);
}

MpiMemory planned_mpi_memory(const TrainingArguments& args, bool is_here) {
  const bool on_several_hosts = ranks_of_host(args) < args.world_size;
  return mpi_memory(args.world_size,
                    args.world_size > 1 && is_here ? load_link(on_several_hosts).mpi : std::nullopt);
}

}  // namespace shoehorn
