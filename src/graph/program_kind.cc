#include "graph/program_kind.h"

#include <array>

namespace shoehorn {

const ProgramTraits& traits_of(ProgramKind kind) {
  static constexpr std::array<ProgramTraits, 10> kTraits = {{
      {.name = "train_step", .reads_batch = true, .trains = true, .updates = true},
      {.name = "micro_batch_first", .reads_batch = true, .trains = true},
      {.name = "micro_batch_next", .reads_batch = true, .trains = true},
      {.name = "micro_batch_last", .reads_batch = true, .trains = true},
      {.name = "exchange"},
      {.name = "update", .updates = true},
      {.name = "evaluate", .reads_batch = true},
      {.name = "replicate"},
      {.name = "after_load"},
      {.name = "outer_update"},
  }};
  return kTraits.at(static_cast<size_t>(kind));
}

}  // namespace shoehorn
