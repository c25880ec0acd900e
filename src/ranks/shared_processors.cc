#include "ranks/shared_processors.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/processors.h"
#include "ranks/agreement.h"
#include "ranks/open_ranks.h"

namespace shoehorn {

int64_t ranks_on_own_processors(Communicator& ranks) {
  constexpr size_t kLongest = 1024;  // of a host's name and a list of ranges
  const std::vector<std::string> places =
      gather_texts(ranks, host_name() + " " + allowed_processor_list(), kLongest);
  return std::ranges::count(places, places[static_cast<size_t>(ranks.rank())]);
}

}  // namespace shoehorn
