// What ranks tell each other beside the tensors of their programs: small values that all of them need, and the proof that
// they run the same program. All ranks call these functions, in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ranks/communicator.h"

namespace shoehorn {

// The bytes of each rank, by rank; all of one size.
std::vector<std::vector<std::byte>> gather_bytes(Communicator& ranks, std::span<const std::byte> own);

template <typename T>
  requires std::is_trivially_copyable_v<T>
std::vector<T> gather_values(Communicator& ranks, const T& own) {
  std::vector<T> values;
  for (const std::vector<std::byte>& bytes : gather_bytes(ranks, std::as_bytes(std::span(&own, 1))))
    values.push_back(*reinterpret_cast<const T*>(bytes.data()));
  return values;
}

// Each rank's text, by rank; of texts longer than `longest` bytes the beginning.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& own, size_t longest = 256);

// The first rank's text, of any length, on all ranks; without '\0'. What the others say is not asked for.
std::string text_of_main_rank(Communicator& ranks, const std::string& own);

// Ranks in a row on one host.
struct HostRanks {
  std::string host;
  int64_t ranks = 0;
};
// The hosts of all ranks in their order, by the name that each rank gives its own; one whose ranks are not in a row is there
// again.
std::vector<HostRanks> hosts_of_ranks(Communicator& ranks, const std::string& host);

// How many ranks each host has. UserError that names hosts which have others than the first, or ranks that are not in a row.
int64_t ranks_of_each_host(const std::vector<HostRanks>& hosts);

// How many ranks in a row each host has, where the last one may have fewer; none where that is not so. UserError naming
// ranks_per_host, and a host with another number, if `given` is not that number.
std::optional<int64_t> ranks_per_host(const std::vector<HostRanks>& hosts, std::optional<int64_t> given);

// Returns when every rank has called it.
void wait_for_all(Communicator& ranks);

// If a stop was requested of any rank (base/stop_request.h), it is of all. Throws Stopped then. Each rank sends a word of so many
// bytes to the next, once for each other rank.
inline constexpr int64_t kStopWordBytes = sizeof(int);
void agree_on_stop(Communicator& ranks);

// What ranks must have alike: "the arguments", "the program".
struct SharedFact {
  std::string name;
  std::string content;
};
// UserError that names the first fact in which a rank differs from rank 0, and the rank. A fact is compared by its hash.
void check_alike(Communicator& ranks, const std::vector<SharedFact>& facts);

}  // namespace shoehorn
