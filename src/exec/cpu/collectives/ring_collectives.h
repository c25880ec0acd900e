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

struct RingCall {
  Communicator* ranks = nullptr;
  Ring ring;
  DType dtype = DType::kF32;
  std::vector<SegmentBytes> segments;  // those of the ring
  std::byte* sent = nullptr;           // [Ring::chunk_elements()]
  std::byte* received = nullptr;       // as large
};

// Called by all ranks, from any thread: they enter no OpenMP. With segments of the same sizes. SystemError of
// Communicator::exchange.

// A rank's own terms in `whole` become the sums of all ranks. float32 or float64.
void all_reduce(const RingCall& call);
// `part` becomes this rank's part of the sums, with zeros for padding; `whole` is read only. float32.
void reduce_scatter(const RingCall& call);
// `whole` becomes the parts of all ranks. Any type.
void all_gather(const RingCall& call);

}  // namespace shoehorn::cpu
