// DataParallel's first exchange of a step: the first rank packs the micro-batches of all ranks, and sends each its own.
#pragma once

#include "data/window_iterator.h"
#include "ranks/communicator.h"

namespace shoehorn {

// `batch` becomes this rank's micro-batch of the window, whose micro-batches the first rank's `windows` have all. Called by all
// ranks, whose batches have the same columns of the same sizes; a rank for which there is none gets the first's. What is sent
// is what session/batch_feed.h says (scattered_bytes). SystemError of Communicator::exchange. Allocates nothing.
void scatter_micro_batches(Communicator& ranks, WindowIterator& windows, const Window& window,
                           MicroBatch& batch);

}  // namespace shoehorn
