#include "lab/mpi_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/plural.h"

namespace shoehorn {

namespace {

// Open MPI 4.1.4 of Debian 12, whose ranks reach each other through memory: 11.2 MiB on two ranks, most of it libraries,
// and on up to 32 ranks 19 to 22 KiB more for each other one.
constexpr int64_t kBytesOfLibraries = int64_t{12} << 20;
constexpr int64_t kBytesOfAnother = int64_t{24} << 10;

}  // namespace

MpiMemory mpi_memory(int64_t ranks, const std::optional<MpiMemory>& measured) {
  if (ranks == 1) return {};
  if (!measured) return {.bytes = kBytesOfLibraries + (ranks - 1) * kBytesOfAnother};
  const int64_t more_ranks = std::max<int64_t>(0, ranks - measured->measured_ranks);
  return {.bytes = measured->bytes + more_ranks * kBytesOfAnother,
          .measured_ranks = measured->measured_ranks};
}

std::string describe_source(const MpiMemory& memory) {
  if (memory.measured_ranks == 0) return "an estimate, as nobody measured it here";
  return fmt::format("as measured on {} of this host", plural(memory.measured_ranks, "rank"));
}

nlohmann::json to_json(const MpiMemory& memory) {
  nlohmann::json json = {{"bytes", memory.bytes}, {"measured_ranks", nullptr}};
  if (memory.measured_ranks > 0) json["measured_ranks"] = memory.measured_ranks;
  return json;
}

}  // namespace shoehorn
