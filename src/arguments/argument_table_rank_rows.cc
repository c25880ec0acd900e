// Rows of the table: runs of several ranks.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> ranks() {
  return {
      {.name = "world_size",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::world_size,
       .resume = kSamples,
       .help =
           "ranks that share each step, data parallel; train gets them from `shoehorn launch` or mpirun and checks "
           "this number, plan plans a rank of so many"},
      {.name = "ddp_bucket_cap_mb",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan,
       .field = &Args::ddp_bucket_cap_mb,
       .resume = kFree,
       .help = "MiB of gradients that go around between ranks together; 25 unless given"},
      {.name = "ddp_timeout",
       .group = kDistributed,
       .read_by = kReadByTrain,
       .field = &Args::ddp_timeout,
       .resume = kIrrelevant,
       .help = "seconds that a rank waits for the others before the run fails"},
  };
}

}  // namespace shoehorn::argument_rows
