// What the first rank has goes to all, or what all have is added up there, along the chain of ranks: each passes on what it has
// received of its neighbour while the next piece comes. For passes/replicas.h, which does what PyTorch's DataParallel does; rings
// (ring_collectives.h) spread the work over the ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ranks/communicator.h"

namespace shoehorn::cpu {

struct ChainCall {
  Communicator* ranks = nullptr;
  std::vector<std::span<std::byte>>
      pieces;                     // of the tensors, one behind the other; the same sizes on all ranks
  std::byte* received = nullptr;  // reduce: room for the largest piece
};

// Tensors in pieces of at most so many bytes.
std::vector<std::span<std::byte>> pieces_of(const std::vector<std::span<std::byte>>& tensors,
                                            int64_t most_bytes);

// Called by all ranks, from any thread: they enter no OpenMP. SystemError of Communicator::exchange.

// Every rank has the first one's bytes.
void broadcast(const ChainCall& call);
// The first rank has the sums of all: x_0 + (x_1 + (… + x_{N-1})), float32. The others have what they passed on.
void reduce(const ChainCall& call);

}  // namespace shoehorn::cpu
