// What MPI adds to the memory of each rank: its libraries, and what it keeps for each of the other ranks. A run measures it
// with all else that its process holds; plans of ranks that are not there take it from here.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace shoehorn {

struct MpiMemory {
  int64_t bytes = 0;           // of a rank
  int64_t measured_ranks = 0;  // on so many `shoehorn topo` measured it; 0: nobody did
};

// Of each of so many ranks; one alone has none. `measured`: on this host, perhaps on other ranks than these; none: an estimate.
MpiMemory mpi_memory(int64_t ranks, const std::optional<MpiMemory>& measured);

// "as measured on 2 ranks of this host", "an estimate, as nobody measured it here"
std::string describe_source(const MpiMemory& memory);
nlohmann::json to_json(const MpiMemory& memory);

}  // namespace shoehorn
