// Sums over ranks, and what each rank has a part of told to all, by rings of messages (ops/ring.h). The sums are added here,
// so that their order is known: a run has the same bits each time on the same ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "ops/ring.h"
#include "ranks/communicator.h"

namespace shoehorn::cpu {

// The bytes of a segment of the ring: all of its elements, and this rank's part of them.
struct SegmentBytes {
  std::byte* whole = nullptr;  // [elements]
  std::byte* part = nullptr;   // [piece]; all_reduce has none
};

// A rank's place in a ring of some of the run's ranks, and who stands beside it.
struct RingPlace {
  int64_t place = 0;
  int32_t next = 0;  // ranks of the run
  int32_t before = 0;
};
// In a ring of all ranks.
inline RingPlace place_of(const Communicator& ranks) {
  return {ranks.rank(), ranks.next(), ranks.before()};
}

struct RingCall {
  Communicator* ranks = nullptr;
  RingPlace at;
  Ring ring;
  DType dtype = DType::kF32;
  std::vector<SegmentBytes> segments;  // those of the ring
  std::byte* sent = nullptr;           // [Ring::chunk_elements()]
  std::byte* received = nullptr;       // as large
};

// Called by all ranks of the ring, from any thread: they enter no OpenMP. With segments of the same sizes. SystemError of
// Communicator::exchange.

// A rank's own terms in `whole` become the sums of all ranks. float32 or float64.
void all_reduce(const RingCall& call);
// `part` becomes this rank's part of the sums, with zeros for padding; `whole` is read only. float32.
void reduce_scatter(const RingCall& call);
// `whole` becomes the parts of all ranks. Any type.
void all_gather(const RingCall& call);

}  // namespace shoehorn::cpu
