#include "lab/link_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/median.h"
#include "exec/backends.h"
#include "exec/executor.h"
#include "lab/cached_json.h"
#include "lab/text_table.h"
#include "ops/ring.h"
#include "passes/collective_nodes.h"
#include "plan/memory_plan.h"
#include "ranks/agreement.h"
#include "ranks/open_ranks.h"

namespace shoehorn {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLinkFormat = 4;
constexpr const char* kLinkFolder = "links";

constexpr size_t kShortMessage = 8;
constexpr size_t kLongMessage = size_t{4} << 20;
constexpr int kShortTrips = 21;
constexpr int kLongTrips = 5;
// Of the all-reduce: from 1 KiB to 16 MiB, each four times the last.
constexpr int64_t kLeastBytes = 1 << 10;
constexpr int64_t kMostBytes = 16 << 20;
constexpr int64_t kGrowth = 4;
// Repeated for so long, within these bounds.
constexpr double kSecondsOfPoint = 0.2;
constexpr int kLeastRuns = 3;
constexpr int kMostRuns = 50;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median round trip between this rank, which `is_first`, and the other.
double round_trip(Communicator& ranks, int32_t other, bool is_first, size_t bytes, int trips) {
  std::vector<std::byte> sent(bytes), received(bytes);
  const auto send = [&] { ranks.exchange(other, sent, other, {}); };
  const auto receive = [&] { ranks.exchange(other, {}, other, received); };
  std::vector<double> seconds;
  for (int trip = 0; trip <= trips; ++trip) {
    const double once = seconds_of([&] {
      is_first ? send() : receive();
      is_first ? receive() : send();
    });
    if (trip > 0) seconds.push_back(once);  // behind one to warm up
  }
  return median(seconds);
}

// One pair at a time; the others wait. What rank `from` measured is told to all.
std::vector<RankPair> measure_pairs(Communicator& ranks) {
  std::vector<RankPair> pairs;
  for (int32_t from = 0; from < ranks.size(); ++from) {
    for (int32_t to = from + 1; to < ranks.size(); ++to) {
      const bool are_neighbours = to == from + 1 || (from == 0 && to == ranks.size() - 1);
      if (ranks.size() > kMaxRanksOfPairs && !are_neighbours) continue;
      RankPair pair{.from = from, .to = to};
      if (ranks.rank() == from || ranks.rank() == to) {
        const bool is_first = ranks.rank() == from;
        const int32_t other = is_first ? to : from;
        pair.latency_seconds = round_trip(ranks, other, is_first, kShortMessage, kShortTrips) / 2;
        pair.bytes_per_second = 2 * static_cast<double>(kLongMessage) /
                                round_trip(ranks, other, is_first, kLongMessage, kLongTrips);
      }
      pairs.push_back(gather_values(ranks, pair)[static_cast<size_t>(from)]);
    }
  }
  return pairs;
}

// The sums of one tensor over all ranks, as training makes them: by the op, a plan and the backend.
class AllReduceProgram {
 public:
  AllReduceProgram(const std::shared_ptr<Communicator>& ranks, const Backend& backend, int64_t bytes) {
    Storage terms;
    terms.name = "terms";
    terms.type = {DType::kF32, {bytes / dtype_bytes(DType::kF32)}};
    terms.role = Role::kGradient;
    const StorageId storage = state_.add_storage(terms);
    Program& program = programs_.emplace_back(ProgramKind::kUpdate, &state_);
    OpBuilder builder(program);
    const RankOptions options{.world_size = ranks->size(), .bucket_bytes = bytes};
    const RingSegment segment = ring_segment(terms.type.shape.elements(), options.world_size);
    const int64_t chunk = most_chunk_elements(options, RingOf::kAll, DType::kF32);
    append_collective(builder, OpKind::kAllReduce, {{program.read_state(storage), {segment}}}, chunk, options,
                      RingOf::kAll, false, "all_reduce");
    plan_ = plan_memory(state_, programs_, backend);
    executor_.emplace(state_, programs_, plan_, backend, ExecutorOptions{.heeds_stops = false});
  }
  void run() { executor_->run(ProgramId{0}, {}); }

 private:
  StateTable state_;
  std::vector<Program> programs_;
  MemoryPlan plan_;
  std::optional<Executor> executor_;
};

// The slowest rank's, since it is the one that training waits for.
double slowest(Communicator& ranks, double seconds) {
  const std::vector<double> all = gather_values(ranks, seconds);
  return *std::max_element(all.begin(), all.end());
}

std::vector<AllReducePoint> measure_all_reduce(const std::shared_ptr<Communicator>& ranks) {
  const std::unique_ptr<Backend> backend = make_backend(kDefaultBackend, 1, ranks);
  std::vector<AllReducePoint> points;
  for (int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kGrowth) {
    AllReduceProgram program(ranks, *backend, bytes);
    program.run();
    const double once = slowest(*ranks, seconds_of([&] { program.run(); }));
    const int runs =
        std::clamp(static_cast<int>(kSecondsOfPoint / std::max(once, 1e-6)), kLeastRuns, kMostRuns);
    std::vector<double> seconds;
    for (int run = 0; run < runs; ++run) seconds.push_back(seconds_of([&] { program.run(); }));
    points.push_back({bytes, slowest(*ranks, median(seconds)), slowest(*ranks, relative_spread(seconds))});
  }
  return points;
}

// A square of ranks by ranks; the way back is the same.
std::string format_square(const LinkMeasurement& measurement,
                          const std::function<std::string(const RankPair&)>& cell_of) {
  const size_t size = measurement.hosts.size();
  std::vector<TextColumn> columns = {{"rank"}};
  std::vector<std::vector<std::string>> rows(size, std::vector<std::string>(size + 1, kNothing));
  for (size_t rank = 0; rank < size; ++rank) {
    const std::string number = fmt::format("{}", rank);
    columns.push_back({number, true});
    rows[rank][0] = number;
    rows[rank][rank + 1] = "X";
  }
  for (const RankPair& pair : measurement.pairs) {
    const auto from = static_cast<size_t>(pair.from), to = static_cast<size_t>(pair.to);
    rows[from][to + 1] = rows[to][from + 1] = cell_of(pair);
  }
  return format_table(columns, rows);
}

// Of more ranks only the neighbours are there.
std::string format_row_of_pairs(const LinkMeasurement& measurement) {
  std::vector<std::vector<std::string>> rows;
  for (const RankPair& pair : measurement.pairs) {
    rows.push_back({fmt::format("{} - {}", pair.from, pair.to),
                    fmt::format("{:.1f}", 1e6 * pair.latency_seconds),
                    fmt::format("{:.2f}", pair.bytes_per_second / 1e9)});
  }
  return format_table({{"ranks"}, {"latency, µs", true}, {"GB/s", true}}, rows);
}

nlohmann::json load_to_json(const LinkLoad& load) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankLoad& rank : load.ranks) {
    ranks.push_back({{"processors", rank.processors},
                     {"own", rank.own},
                     {"others", rank.others < 0 ? nlohmann::json() : nlohmann::json(rank.others)},
                     {"involuntary_switches", rank.involuntary_switches}});
  }
  return {{"spread", load.spread}, {"ranks", std::move(ranks)}, {"disturbance", disturbance(load)}};
}

bool is_of_several_hosts(const LinkMeasurement& measurement) {
  return std::ranges::any_of(measurement.hosts,
                             [&](const std::string& host) { return host != measurement.hosts[0]; });
}

// The median pair of ranks on one host, whatever the others do; none where every rank has a host of its own.
std::optional<RankLink> link_of_pairs_on_a_host(const LinkMeasurement& measurement) {
  std::vector<double> latencies, bandwidths;
  std::vector<std::string> hosts;
  for (const RankPair& pair : measurement.pairs) {
    const std::string& host = measurement.hosts[static_cast<size_t>(pair.from)];
    if (host != measurement.hosts[static_cast<size_t>(pair.to)]) continue;
    latencies.push_back(pair.latency_seconds);
    bandwidths.push_back(pair.bytes_per_second);
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  if (hosts.empty()) return std::nullopt;
  return RankLink{
      .latency_seconds = median(latencies),
      .bytes_per_second = median(bandwidths),
      .source = fmt::format("measured between pairs of ranks on {}, one at a time", fmt::join(hosts, ", "))};
}

nlohmann::json link_to_json(const RankLink& link) {
  return {{"latency_seconds", link.latency_seconds},
          {"bytes_per_second", link.bytes_per_second},
          {"source", link.source}};
}

RankLink link_from_json(const nlohmann::json& json, bool is_of_one_host) {
  return {.latency_seconds = json.at("latency_seconds").get<double>(),
          .bytes_per_second = json.at("bytes_per_second").get<double>(),
          .source = json.at("source").get<std::string>(),
          .is_of_one_host = is_of_one_host};
}

bool has_undisturbed(const std::filesystem::path& path) {
  const CachedJson file = load_cached_json(path);
  if (!file.content) return false;
  try {
    return file.content->at("format") == kLinkFormat && file.content->at("load").at("disturbance") == "";
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// What a file of the cache has.
struct LinkFile {
  std::optional<RankLink> link = {};         // of the ring
  std::optional<RankLink> within_host = {};  // where the ring leaves its hosts
  std::optional<MpiMemory> mpi = {};
  std::string defect = {};  // why there are none, and what to do
};

LinkFile read_link_file(const std::string& host, bool has_others) {
  const std::filesystem::path path = link_path(host, has_others);
  const auto unusable = [&](const std::string& why) {
    return LinkFile{
        .defect = fmt::format(
            "The link between {} is not known: {}; `shoehorn launch {} topo` measures it, --link_bandwidth says it\n",
            has_others ? "hosts" : "ranks", why,
            has_others ? "--hostfile FILE --nproc_per_node N" : "--nproc_per_node N")};
  };
  const CachedJson file = load_cached_json(path);
  if (!file.content) {
    const std::string nobody =
        fmt::format("nobody measured it from {}{}", host, has_others ? " to others" : "");
    return unusable(file.defect.empty() ? nobody : file.defect);
  }
  try {
    if (file.content->at("format") != kLinkFormat)
      return unusable(fmt::format("{} has another format", path.string()));
    const nlohmann::json& within_host = file.content->at("link_within_host");
    const nlohmann::json& mpi = file.content->at("mpi");
    return {.link = link_from_json(file.content->at("link"), !has_others),
            .within_host =
                within_host.is_null() ? std::nullopt : std::optional(link_from_json(within_host, true)),
            .mpi = MpiMemory{.bytes = mpi.at("bytes").get<int64_t>(),
                             .measured_ranks = mpi.at("measured_ranks").get<int64_t>()}};
  } catch (const nlohmann::json::exception&) {
    return unusable(fmt::format("{} is damaged", path.string()));
  }
}

}  // namespace

double all_reduce_seconds(const RankLink& link, int64_t bytes, int64_t ranks) {
  const auto messages = static_cast<double>(2 * (ranks - 1));
  return messages * (link.latency_seconds +
                     static_cast<double>(bytes) / static_cast<double>(ranks) / link.bytes_per_second);
}

RankLink fitted_link(const std::vector<AllReducePoint>& points, int64_t ranks) {
  // Of each point 1 = latency x + y / bandwidth, with x and y relative to its seconds.
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const AllReducePoint& point : points) {
    const double x = static_cast<double>(2 * (ranks - 1)) / point.seconds;
    const double y = x * static_cast<double>(point.bytes) / static_cast<double>(ranks);
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  CHECK(determinant > 0, "{} points of one size", points.size());
  RankLink link{.latency_seconds = (x1 * yy - y1 * xy) / determinant,
                .bytes_per_second = determinant / (y1 * xx - x1 * xy)};
  if (link.latency_seconds < 0) link = {.latency_seconds = 0, .bytes_per_second = yy / y1};
  // Large messages took no longer than small ones: then nothing is known of the bandwidth but that of the largest.
  if (link.bytes_per_second <= 0) {
    const AllReducePoint& last = points.back();
    const double sent = static_cast<double>(2 * (ranks - 1) * last.bytes) / static_cast<double>(ranks);
    link = {.latency_seconds = 0, .bytes_per_second = sent / last.seconds};
  }
  return link;
}

LinkMeasurement measure_links(const std::shared_ptr<Communicator>& ranks) {
  LinkMeasurement measurement{.hosts = gather_texts(*ranks, host_name())};
  const LinkWatch watch;
  measurement.pairs = measure_pairs(*ranks);
  measurement.all_reduce = measure_all_reduce(ranks);
  measurement.link = fitted_link(measurement.all_reduce, ranks->size());
  measurement.link.source = "measured between " + describe_ranks(measurement.hosts);
  if (is_of_several_hosts(measurement)) measurement.within_host = link_of_pairs_on_a_host(measurement);
  std::vector<double> spreads;
  for (const AllReducePoint& point : measurement.all_reduce) {
    const double error =
        std::abs(all_reduce_seconds(measurement.link, point.bytes, ranks->size()) / point.seconds - 1);
    measurement.link_error = std::max(measurement.link_error, error);
    spreads.push_back(point.spread);
  }
  measurement.load = {.ranks = watch.loads(*ranks), .spread = median(spreads)};
  if (const std::string text = disturbance(measurement.load); !text.empty())
    measurement.link.source += ", while " + text;
  return measurement;
}

std::string describe_ranks(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (std::find(names.begin(), names.end(), host) == names.end()) names.push_back(host);
  }
  return fmt::format("{} ranks on {}", hosts.size(), fmt::join(names, ", "));
}

std::string format_link(const RankLink& link) {
  return fmt::format("{:.1f} µs a message and {:.3g} GB/s", 1e6 * link.latency_seconds,
                     link.bytes_per_second / 1e9);
}

std::string format_links(const LinkMeasurement& measurement) {
  std::string text;
  if (static_cast<int64_t>(measurement.hosts.size()) > kMaxRanksOfPairs) {
    text = "Neighbours in the ring\n" + format_row_of_pairs(measurement);
  } else {
    text = "Latency of a message between ranks, µs\n" + format_square(measurement, [](const RankPair& pair) {
             return fmt::format("{:.1f}", 1e6 * pair.latency_seconds);
           });
    text += "Bandwidth between ranks, GB/s one way\n" + format_square(measurement, [](const RankPair& pair) {
              return fmt::format("{:.2f}", pair.bytes_per_second / 1e9);
            });
  }
  text += fmt::format("All-reduce over {}\n", describe_ranks(measurement.hosts));
  const auto ranks = static_cast<int64_t>(measurement.hosts.size());
  std::vector<std::vector<std::string>> rows;
  for (const AllReducePoint& point : measurement.all_reduce) {
    const double sent =
        2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) * static_cast<double>(point.bytes);
    rows.push_back({format_bytes(point.bytes), fmt::format("{:.1f}", 1e6 * point.seconds),
                    fmt::format("{:.3f}", sent / point.seconds / 1e9),
                    fmt::format("{:.1f}", 1e6 * all_reduce_seconds(measurement.link, point.bytes, ranks))});
  }
  text += format_table({{"bytes"}, {"µs", true}, {"sent, GB/s", true}, {"µs by the link", true}}, rows);
  text += fmt::format("Link: {}; the curve differs from it by {:.0f} % at most\n",
                      format_link(measurement.link), 100 * measurement.link_error);
  if (measurement.within_host) {
    text += fmt::format("The ring leaves its hosts: that is the link between them; within a host {}\n",
                        format_link(*measurement.within_host));
  }
  const std::string disturbed = disturbance(measurement.load);
  if (disturbed.empty()) return text;
  return text +
         fmt::format("Something disturbed this: {}; measure again when nothing else runs\n", disturbed);
}

nlohmann::json to_json(const LinkMeasurement& measurement) {
  nlohmann::json pairs = nlohmann::json::array(), curve = nlohmann::json::array();
  for (const RankPair& pair : measurement.pairs) {
    pairs.push_back({{"from", pair.from},
                     {"to", pair.to},
                     {"latency_seconds", pair.latency_seconds},
                     {"bytes_per_second", pair.bytes_per_second}});
  }
  for (const AllReducePoint& point : measurement.all_reduce)
    curve.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}, {"spread", point.spread}});
  nlohmann::json link = link_to_json(measurement.link);
  link["error"] = measurement.link_error;
  return {{"hosts", measurement.hosts},
          {"pairs", std::move(pairs)},
          {"all_reduce", std::move(curve)},
          {"link", std::move(link)},
          {"link_within_host",
           measurement.within_host ? link_to_json(*measurement.within_host) : nlohmann::json()},
          {"load", load_to_json(measurement.load)},
          {"mpi", to_json(measurement.mpi)}};
}

std::filesystem::path link_path(const std::string& host, bool has_others) {
  return cached_json_path(kLinkFolder, {host, has_others ? "and others" : "alone"});
}

bool save_links(const LinkMeasurement& measurement) {
  const std::filesystem::path path = link_path(measurement.hosts.at(0), is_of_several_hosts(measurement));
  if (!disturbance(measurement.load).empty() && has_undisturbed(path)) return false;
  nlohmann::json content = to_json(measurement);
  content["format"] = kLinkFormat;
  save_cached_json(path, std::move(content));
  return true;
}

LoadedLink load_link(bool on_several_hosts) {
  const std::string host = host_name();
  LinkFile asked = read_link_file(host, on_several_hosts);
  LinkFile other = read_link_file(host, !on_several_hosts);
  if (!on_several_hosts) {
    // What goes on within a host is a part of what goes on between several.
    const LinkFile& known = asked.link ? asked : other;
    const std::optional<RankLink>& link = known.within_host ? known.within_host : known.link;
    return {.link = link, .mpi = known.mpi, .notice = link ? "" : asked.defect};
  }
  if (!asked.link) return {.mpi = other.mpi, .notice = asked.defect};
  RankLink link = other.link ? *other.link : asked.within_host.value_or(*asked.link);
  link.between_hosts = HostLink{.latency_seconds = asked.link->latency_seconds,
                                .bytes_per_second = asked.link->bytes_per_second,
                                .source = asked.link->source};
  return {.link = std::move(link), .mpi = asked.mpi};
}

}  // namespace shoehorn
