#include "train/batch_scatter.h"

#include <span>

#include "session/batch_feed.h"

namespace shoehorn {

namespace {

void send(Communicator& ranks, int32_t to, const MicroBatch& batch) {
  const BatchCounts counts = batch.counts();
  ranks.exchange(to, std::as_bytes(std::span(&counts, 1)), to, {});
  for (const BatchColumn column : batch_columns()) ranks.exchange(to, batch.bytes(column), to, {});
}

void receive(Communicator& ranks, int32_t from, MicroBatch& batch) {
  BatchCounts counts;
  ranks.exchange(from, {}, from, std::as_writable_bytes(std::span(&counts, 1)));
  batch.set_counts(counts);
  for (const BatchColumn column : batch_columns()) ranks.exchange(from, {}, from, batch.bytes(column));
}

}  // namespace

void scatter_micro_batches(Communicator& ranks, WindowIterator& windows, const Window& window,
                           MicroBatch& batch) {
  if (!ranks.is_main()) {
    receive(ranks, 0, batch);
    return;
  }
  // Its own is the last, for all are packed in its place.
  for (int32_t rank = ranks.size() - 1; rank >= 0; --rank) {
    windows.load(rank < window.micro_batches ? rank : 0, batch);
    if (rank > 0) send(ranks, rank, batch);
  }
}

}  // namespace shoehorn
