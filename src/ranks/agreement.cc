#include "ranks/agreement.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/stop_request.h"

namespace shoehorn {

std::vector<std::vector<std::byte>> gather_bytes(Communicator& ranks, std::span<const std::byte> own) {
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(ranks.size()),
                                          std::vector<std::byte>(own.size()));
  const auto of = [&](int32_t rank) -> std::vector<std::byte>& {
    return all[static_cast<size_t>((rank + ranks.size()) % ranks.size())];
  };
  std::copy(own.begin(), own.end(), of(ranks.rank()).begin());
  for (int32_t round = 0; round < ranks.size() - 1; ++round)
    ranks.exchange(ranks.next(), of(ranks.rank() - round), ranks.before(), of(ranks.rank() - round - 1));
  return all;
}

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& own, size_t longest) {
  std::vector<std::byte> padded(longest);
  std::memcpy(padded.data(), own.data(), std::min(longest, own.size()));
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : gather_bytes(ranks, padded)) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    texts.emplace_back(text, strnlen(text, longest));
  }
  return texts;
}

std::string text_of_main_rank(Communicator& ranks, const std::string& own) {
  const int64_t bytes = gather_values(ranks, std::ssize(own))[0];
  if (bytes == 0) return {};
  return gather_texts(ranks, ranks.is_main() ? own : std::string(), static_cast<size_t>(bytes))[0];
}

namespace {

bool is_there_again(const std::vector<HostRanks>& hosts, size_t at) {
  return std::any_of(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(at),
                     [&](const HostRanks& before) { return before.host == hosts[at].host; });
}

}  // namespace

std::vector<HostRanks> hosts_of_ranks(Communicator& ranks, const std::string& host) {
  std::vector<HostRanks> hosts;
  for (const std::string& one : gather_texts(ranks, host)) {
    if (hosts.empty() || hosts.back().host != one) hosts.push_back({one, 0});
    ++hosts.back().ranks;
  }
  return hosts;
}

int64_t ranks_of_each_host(const std::vector<HostRanks>& hosts) {
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!is_there_again(hosts, i) && hosts[i].ranks == hosts[0].ranks) continue;
    throw user_error(
        "[--zero_group_size 0] expected as many ranks in a row on each host, got {} on {}, then {} on {}; give the number of "
        "ranks that share, or start as many on each host",
        hosts[0].ranks, hosts[0].host, hosts[i].ranks, hosts[i].host);
  }
  return hosts[0].ranks;
}

std::optional<int64_t> ranks_per_host(const std::vector<HostRanks>& hosts, std::optional<int64_t> given) {
  const int64_t expected = given.value_or(hosts[0].ranks);
  for (size_t i = 0; i < hosts.size(); ++i) {
    const bool may_have_fewer = i + 1 == hosts.size() && hosts[i].ranks < expected;
    if (!is_there_again(hosts, i) && (hosts[i].ranks == expected || may_have_fewer)) continue;
    if (!given) return std::nullopt;
    throw user_error(
        "[--ranks_per_host {}] expected so many ranks in a row on each host, got {} on {}; leave it out, for a run finds the "
        "number",
        expected, hosts[i].ranks, hosts[i].host);
  }
  return expected;
}

void wait_for_all(Communicator& ranks) {
  gather_values(ranks, std::byte{0});
}

void agree_on_stop(Communicator& ranks) {
  static_assert(sizeof(stop_signal()) == kStopWordBytes);
  const std::vector<int> signals = gather_values(ranks, stop_signal());
  const auto first = std::find_if(signals.begin(), signals.end(), [](int signal) { return signal != 0; });
  if (first == signals.end()) return;
  request_stop(*first);
  throw_if_stop_requested();
}

namespace {

std::string hash_of(const std::string& content) {
  ContentHash hash;
  hash.add(std::as_bytes(std::span(content)));
  return hash.hex();
}

// The first rank whose hash is another than rank 0's; all ranks call it.
std::optional<int32_t> rank_with_other(Communicator& ranks, const std::string& hash) {
  const std::vector<std::string> hashes = gather_texts(ranks, hash, 64);
  const auto other =
      std::find_if(hashes.begin(), hashes.end(), [&](const std::string& one) { return one != hashes[0]; });
  if (other == hashes.end()) return std::nullopt;
  return static_cast<int32_t>(other - hashes.begin());
}

}  // namespace

void check_alike(Communicator& ranks, const std::vector<SharedFact>& facts) {
  std::string all;
  for (const SharedFact& fact : facts) all += hash_of(fact.content);
  if (!rank_with_other(ranks, hash_of(all))) return;  // one exchange, where all is well
  for (const SharedFact& fact : facts) {
    const std::optional<int32_t> other = rank_with_other(ranks, hash_of(fact.content));
    if (!other) continue;
    throw user_error("[ranks] expected {} to be the same on all ranks, got another on {} than on {}",
                     fact.name, ranks.name_of(*other), ranks.name_of(0));
  }
}

}  // namespace shoehorn
