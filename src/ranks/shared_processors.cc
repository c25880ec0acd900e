#include "ranks/shared_processors.h"

#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/processors.h"
#include "ranks/agreement.h"
#include "ranks/hwloc_library.h"
#include "ranks/open_ranks.h"
#include "ranks/opened_library.h"

namespace shoehorn {

namespace {

// Where each rank runs, by rank: its host and CPU affinity.
std::vector<std::string> places_of(Communicator& ranks) {
  constexpr size_t kLongest = 1024;
  return gather_texts(ranks, host_name() + " " + allowed_processor_list(), kLongest);
}

// None where hwloc is not there, or does not say.
std::vector<std::string> shares_of_processors(int64_t shares) {
  const OpenedLibrary opened = open_library(kHwlocLibraryName, kHwlocSharesFunction);
  const auto function = reinterpret_cast<decltype(&shoehorn_hwloc_shares)>(opened.function);
  if (function == nullptr) return {};
  const char* text = function(kHwlocInterfaceVersion, static_cast<int>(shares));
  return text == nullptr ? std::vector<std::string>{}
                         : nlohmann::json::parse(text).get<std::vector<std::string>>();
}

bool bind_to(const std::vector<int64_t>& processors) {
  const auto most = static_cast<int>(*std::max_element(processors.begin(), processors.end())) + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  if (set == nullptr) return false;
  const size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (const int64_t processor : processors) CPU_SET_S(static_cast<size_t>(processor), bytes, set);
  const bool is_bound = sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return is_bound;
}

}  // namespace

int64_t ranks_on_own_processors(Communicator& ranks) {
  const std::vector<std::string> places = places_of(ranks);
  return std::ranges::count(places, places[static_cast<size_t>(ranks.rank())]);
}

std::string bind_to_share(Communicator& ranks, int64_t least_processors) {
  first_processor_list();
  const std::vector<std::string> places = places_of(ranks);
  const auto own = places.begin() + ranks.rank();
  const int64_t sharing = std::ranges::count(places, *own);
  if (sharing == 1 || sharing > processors().allowed) return {};
  const std::vector<std::string> shares = shares_of_processors(sharing);
  if (std::ssize(shares) != sharing) return {};
  const std::string& share = shares[static_cast<size_t>(std::count(places.begin(), own, *own))];
  const std::vector<int64_t> list = parse_number_list(share);
  if (list.empty() || std::ssize(list) < least_processors || !bind_to(list)) return {};
  return share;
}

}  // namespace shoehorn
