// Sums over ranks, in place, by a ring of messages (ops/ring.h). The sums are added here, so that their order is known:
// a run has the same bits each time on the same ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "ranks/communicator.h"

namespace shoehorn::cpu {

struct ReducedTensor {
  float* x = nullptr;  // [elements]: a rank's own terms, then the sums of all ranks
  int64_t elements = 0;
};

struct AllReduce {
  Communicator* ranks = nullptr;
  std::vector<ReducedTensor> tensors;  // one range of elements, end to end
  int64_t block_elements = 0;          // that go around at a time, at most
  float* sent = nullptr;               // [Ring::chunk_elements()] or more
  float* received = nullptr;           // as large
};

// Called by all ranks, from any thread: it enters no OpenMP. With tensors of the same sizes. SystemError of Communicator::exchange.
void all_reduce(const AllReduce& arguments);

}  // namespace shoehorn::cpu
