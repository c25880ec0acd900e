// Measures how ranks reach each other: latency and bandwidth of each pair, and the all-reduce that training makes, by the
// bytes that are summed. From the latter follows a link (analysis/message_time.h) that predicts the messages of a plan.
//
// A rank waits as in training, asleep between its looks for the message (ranks/communicator.h), so that latencies are those
// of training and not the network's alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/message_time.h"
#include "lab/link_load.h"
#include "lab/mpi_memory.h"
#include "ranks/communicator.h"

namespace shoehorn {

// Of the way from one rank to another; rank 0 has them all.
struct RankPair {
  int64_t from = 0, to = 0;
  double latency_seconds = 0;   // half of a round trip of a few bytes
  double bytes_per_second = 0;  // of a large message
};

struct AllReducePoint {
  int64_t bytes = 0;  // of each rank, in float32
  double seconds = 0;
  double spread = 0;  // of the times that it is the median of (lab/link_load.h)
};

struct LinkMeasurement {
  std::vector<std::string> hosts = {};  // by rank
  // All pairs with from < to of up to kMaxRanksOfPairs ranks; of more the neighbours in the ring.
  std::vector<RankPair> pairs = {};
  std::vector<AllReducePoint> all_reduce = {};  // by bytes
  RankLink link = {};  // that explains these best: between hosts where there are several
  // Of the pairs on one host, one at a time, where ranks are on several hosts; none where none are on one.
  std::optional<RankLink> within_host = {};
  double link_error = 0;  // the most by which a point differs from it, as a share of the point
  LinkLoad load = {};     // what else ran meanwhile
  MpiMemory mpi = {};     // of the rank that has most; whoever opened the ranks knows it
};

inline constexpr int64_t kMaxRanksOfPairs = 16;

// By all ranks together, which are at least two; some seconds. Only the first one's result is whole.
LinkMeasurement measure_links(const std::shared_ptr<Communicator>& ranks);

// Least squares of the points' relative errors: a ring of N ranks sends 2 (N - 1) messages of bytes / N. At least two points
// of different bytes.
RankLink fitted_link(const std::vector<AllReducePoint>& points, int64_t ranks);
// What a ring of N ranks takes over the link.
double all_reduce_seconds(const RankLink& link, int64_t bytes, int64_t ranks);

// "2 ranks on host-a", "8 ranks on host-a, host-b"
std::string describe_ranks(const std::vector<std::string>& hosts);
// "12.3 µs a message and 3.21 GB/s"
std::string format_link(const RankLink& link);
// Tables of the pairs and of the curve.
std::string format_links(const LinkMeasurement& measurement);
nlohmann::json to_json(const LinkMeasurement& measurement);

// In the user's cache: of each host the last measurement that it began alone, and the last with other hosts, in a file each. One
// that was disturbed says so in the link's source, and never takes the place of one that was not: false, where nothing is saved.
bool save_links(const LinkMeasurement& measurement);
struct LoadedLink {
  std::optional<RankLink> link = {};
  std::optional<MpiMemory> mpi = {};
  std::string notice = {};  // why there are none, and what to do
};
// Of this host: between ranks on it, or with `on_several_hosts` between it and others, and within a host. A measurement of the one
// kind says of the other what it can.
LoadedLink load_link(bool on_several_hosts);
// The file.
std::filesystem::path link_path(const std::string& host, bool has_others);

}  // namespace shoehorn
